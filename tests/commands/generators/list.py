"""Commands of the list family, the blocking ones where they need not wait."""

TABLE = """
7 <LPUSH|RPUSH> key member*
2 <LPUSHX|RPUSHX> key member*
1 RPUSH key many_integers
3 LPOP key [count]
3 RPOP key [count]
3 LLEN key
6 LRANGE key index index
4 LINDEX key index
4 LSET key index member
4 LINSERT key <BEFORE|AFTER|NOPE> member member
4 LREM key count member
3 LTRIM key index index
6 LPOS key member {[RANK rank] [COUNT count] [MAXLEN count]}
1 LPOS key member <RANK|RANK 0|COUNT -1|MAXLEN -1|NOPE 1>
3 RPOPLPUSH key key
4 LMOVE key key <LEFT|RIGHT|NOPE> <LEFT|RIGHT>
4 LMPOP counted_keys <LEFT|RIGHT> [COUNT count]
1 LMPOP counted_keys <NOPE|LEFT COUNT|LEFT 1|LEFT COUNT 1 COUNT 2>
2 ! BLPOP key* blocking_timeout
2 ! BRPOP key* blocking_timeout
2 ! BLMOVE key key <LEFT|RIGHT> <LEFT|RIGHT> blocking_timeout
2 ! BRPOPLPUSH key key blocking_timeout
2 ! BLMPOP blocking_timeout counted_keys <LEFT|RIGHT> [COUNT count]
1 ! MULTI ; BLPOP key* 0 ; BRPOP key* 0 ; BLMOVE key key LEFT RIGHT 0 ; BRPOPLPUSH key key 0 ; BLMPOP 0
    counted_keys LEFT ; EXEC
1 ! <BLPOP|BRPOP> key
1 ! <BLMOVE key key NOPE LEFT 0.002|BLMOVE key key LEFT RIGHT|BLMPOP 0.002 1 key NOPE>
1 OBJECT ENCODING key
1 DEL key
"""
