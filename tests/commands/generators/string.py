"""Commands of the string family."""

TABLE = """
8 SET key value
8 ! SET key value {[NX|XX] [GET] [EX seconds|PX millis|EXAT unix_seconds|PXAT unix_millis|KEEPTTL]}
1 ! SET key value {[NX] [XX] [GET] [EX seconds] [PX millis] [KEEPTTL]}
1 ! SET key value <EX|PX|EXAT|PXAT|NOPE|NX 1|GET GET>
1 SET key value NX
1 SET key value GET
6 GET key
2 GETSET key value
2 GETDEL key
3 ! GETEX key [EX seconds|PX millis|EXAT unix_seconds|PXAT unix_millis|PERSIST]
1 ! GETEX key {[EX seconds] [PX millis] [PERSIST] [KEEPTTL]}
2 SETNX key value
2 ! SETEX key seconds value
2 ! PSETEX key millis value
1 ! <SETEX|PSETEX> key [100000]
3 MSET (key value)*
2 MSETNX (key value)*
1 <MSET|MSETNX> (key value)* key
4 MGET key*
1 MGET any_key*
5 APPEND key value
3 STRLEN key
4 GETRANGE key index index
2 SUBSTR key index index
4 SETRANGE key offset value
4 INCR key
3 DECR key
5 INCRBY key integer
3 DECRBY key integer
6 INCRBYFLOAT key number
2 SET key <number|integer>
4 LCS key key {[LEN] [IDX] [MINMATCHLEN count] [WITHMATCHLEN]}
2 MSET 's1 <'ohmytext|'xaxbxcxd> 's2 <'mynewtext|'abcdabcd> ; LCS 's1 's2 {[LEN] [IDX] [MINMATCHLEN count]
    [WITHMATCHLEN]}
1 OBJECT ENCODING key
"""
