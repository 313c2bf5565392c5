"""Expire times: absolute, relative, in the past, conditional, and who keeps or loses them."""

TABLE = """
6 ! EXPIRE any_key seconds [NX|XX|GT|LT]
6 ! PEXPIRE any_key millis [NX|XX|GT|LT]
6 ! EXPIREAT any_key unix_seconds [NX|XX|GT|LT]
6 ! PEXPIREAT any_key unix_millis [NX|XX|GT|LT]
2 ! EXPIREAT any_key unix_seconds {[NX] [XX] [GT] [LT]}
1 ! EXPIRE any_key 100 <NOPE|GT LT|NX GT|XX XX|GT XX>
1 <EXPIRE|PEXPIRE|EXPIREAT|PEXPIREAT> any_key
6 TTL any_key
6 PTTL any_key
4 EXPIRETIME any_key
4 PEXPIRETIME any_key
5 PERSIST any_key
4 ! SET string_key value {[KEEPTTL|PXAT unix_millis|EX seconds]}
3 ! GETEX string_key [PXAT unix_millis|PERSIST|EX seconds]
2 SET string_key value
2 GET string_key
2 INCR string_key
2 APPEND string_key value
1 GETSET string_key value
1 SETRANGE string_key offset value
1 GETDEL string_key
3 HSET hash_key member value
3 RPUSH list_key member
3 SADD set_key member
3 ZADD zset_key score member
1 LPOP list_key
1 SREM set_key member
3 RENAME any_key any_key
3 COPY any_key any_key [REPLACE]
1 SUNIONSTORE set_key set_key set_key
1 MOVE any_key 1
3 EXISTS any_key*
2 TYPE any_key
1 EXISTS every_key ; DBSIZE
1 KEYS pattern
"""
