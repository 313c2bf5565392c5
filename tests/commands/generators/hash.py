"""Commands of the hash family."""

TABLE = """
8 HSET key (member value)*
2 HMSET key (member value)*
1 <HSET|HMSET> key (member value)* member
3 HSETNX key member value
5 HGET key member
3 HMGET key member*
4 HDEL key member*
3 HEXISTS key member
3 HLEN key
3 HGETALL key
2 HKEYS key
2 HVALS key
2 HSTRLEN key member
5 HINCRBY key member integer
5 HINCRBYFLOAT key member number
1 HSET key 'a <number|integer> ; HINCRBYFLOAT @ 'a number
1 HSET key many_fields
2 ! HKEYS key ; HRANDFIELD @
3 ! HGETALL key ; HRANDFIELD @ random_count [WITHVALUES]
1 ! HRANDFIELD key random_count <NOPE|WITHVALUES 1>
1 ! HRANDFIELD key <9223372036854775807|-9223372036854775808> WITHVALUES
2 ! HSCAN key 0 {[MATCH pattern] [COUNT positive]}
1 ! HSCAN key <'abc|0> {[MATCH pattern] [COUNT count] [TYPE HASH] [NOPE]}
1 OBJECT ENCODING key
"""
