"""Commands of the set family. After a random SPOP the set is deleted, for it then differs."""

TABLE = """
8 SADD key member*
1 SADD key many_integers
1 SADD key many_integers member
4 SREM key member*
1 SREM key many_integers
3 SISMEMBER key member
3 SMISMEMBER key member*
3 SCARD key
4 SMEMBERS key
3 SMOVE key key member
3 SINTER key*
3 SUNION key*
3 SDIFF key*
3 SINTERSTORE key key*
3 SUNIONSTORE key key*
3 SDIFFSTORE key key*
4 SINTERCARD counted_keys [LIMIT count]
1 SINTERCARD counted_keys <LIMIT|LIMIT -1|NOPE 1|LIMIT 1 LIMIT 2>
2 ! SMEMBERS key ; SPOP @ ; SCARD @ ; DEL @
3 ! SMEMBERS key ; SPOP @ random_count ; SCARD @ ; DEL @
1 ! SMEMBERS key ; SPOP @ 1000
1 ! SPOP key <'abc|-1|0|1 1>
2 ! SMEMBERS key ; SRANDMEMBER @
3 ! SMEMBERS key ; SRANDMEMBER @ random_count
1 ! SRANDMEMBER key 1 1
2 ! SSCAN key 0 {[MATCH pattern] [COUNT positive]}
1 ! SSCAN key <'abc|0> {[MATCH pattern] [COUNT count] [NOPE]}
1 OBJECT ENCODING key
"""
