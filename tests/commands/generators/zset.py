"""Commands of the sorted set family, the blocking ones where they need not wait.

What a range of members (``BYLEX``) is, when scores differ, Redis does not say,
and its skip list answers by chance. So those commands have keys of their own,
whose members all have score 0.
"""

TABLE = """
6 ZADD key (score member)*
6 ZADD key {[NX|XX] [GT|LT] [CH]} (score member)*
3 ZADD key {[NX|XX] [GT|LT] [CH] INCR} score member
1 ZADD key {[NX] [XX] [GT] [LT] [CH] [INCR]} (score member)*
1 ZADD key (score member)* score
1 ZADD key many_pairs
1 ZADD key <0 'a 0 'b 0 'c 0 'd 0 'aa 0 'ab|1 'a 1 'b 1 'foo>
6 ! ZADD lex_key (0 member)*
1 ! ZADD lex_key many_with_score_0
1 ZREM lex_key member*
1 ! SET lex_key value
5 ZINCRBY key score member
4 ZREM key member*
4 ZSCORE key member
3 ZMSCORE key member*
3 ZCARD key
3 ZCOUNT key score_bound score_bound
2 ZLEXCOUNT lex_key lex_bound lex_bound
3 ZRANK key member
3 ZREVRANK key member
4 ZRANGE key index index {[REV] [WITHSCORES]}
4 ZRANGE key score_bound score_bound BYSCORE {[REV] [WITHSCORES] [LIMIT index count]}
3 ZRANGE lex_key lex_bound lex_bound BYLEX {[REV] [LIMIT index count]}
1 ZRANGE key index index {[REV] [BYSCORE] [BYLEX] [WITHSCORES] [LIMIT index count]}
2 ZRANGESTORE key key index index [REV]
3 ZRANGESTORE key key score_bound score_bound BYSCORE {[REV] [LIMIT index count]}
2 ! ZRANGESTORE lex_key lex_key lex_bound lex_bound BYLEX {[REV] [LIMIT index count]}
1 ZRANGESTORE key key index index {[WITHSCORES] [LIMIT index count]}
2 ZREVRANGE key index index [WITHSCORES]
3 ZRANGEBYSCORE key score_bound score_bound {[WITHSCORES] [LIMIT index count]}
3 ZREVRANGEBYSCORE key score_bound score_bound {[WITHSCORES] [LIMIT index count]}
2 ZRANGEBYLEX lex_key lex_bound lex_bound [LIMIT index count]
2 ZREVRANGEBYLEX lex_key lex_bound lex_bound [LIMIT index count]
2 ZREMRANGEBYRANK key index index
2 ZREMRANGEBYSCORE key score_bound score_bound
2 ZREMRANGEBYLEX lex_key lex_bound lex_bound
3 ZPOPMIN key [count]
3 ZPOPMAX key [count]
3 ZMPOP counted_keys <MIN|MAX> [COUNT count]
1 ZMPOP counted_keys <NOPE|MIN COUNT|MIN 1|MIN COUNT 1 COUNT 2>
2 ! BZPOPMIN key* blocking_timeout
2 ! BZPOPMAX key* blocking_timeout
2 ! BZMPOP blocking_timeout counted_keys <MIN|MAX> [COUNT count]
1 ! MULTI ; BZPOPMIN key* 0 ; BZPOPMAX key* 0 ; BZMPOP 0 counted_keys MIN ; EXEC
1 ! <BZPOPMIN key|BZMPOP 0.002 1 key NOPE>
2 <ZUNION|ZINTER> <counted_set_or_zset_keys|weighted_keys> {[AGGREGATE <SUM|MIN|MAX>] [WITHSCORES]}
3 <ZUNIONSTORE|ZINTERSTORE> key <counted_set_or_zset_keys|weighted_keys> [AGGREGATE <SUM|MIN|MAX|NOPE>]
2 ZDIFF counted_set_or_zset_keys [WITHSCORES]
2 ZDIFFSTORE key counted_set_or_zset_keys
1 <ZDIFFSTORE key|ZDIFF|ZUNION|ZUNIONSTORE key> counted_set_or_zset_keys <WEIGHTS|AGGREGATE|WEIGHTS 1 1
    1|NOPE|WITHSCORES>
3 ZINTERCARD counted_set_or_zset_keys [LIMIT count]
1 SADD set_key member*
2 ! ZRANGE key 0 -1 ; ZRANDMEMBER @
3 ! ZRANGE key 0 -1 WITHSCORES ; ZRANDMEMBER @ random_count [WITHSCORES]
1 ! ZRANDMEMBER key random_count <NOPE|WITHSCORES 1>
2 ! ZSCAN key 0 {[MATCH pattern] [COUNT positive]}
1 ! ZSCAN key <'abc|0> {[MATCH pattern] [COUNT count] [NOPE]}
1 OBJECT ENCODING key
"""
