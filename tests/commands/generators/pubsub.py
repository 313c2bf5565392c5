"""Publish and subscribe on one connection; the tests with several are scenarios."""

TABLE = """
6 SUBSCRIBE channel*
5 PSUBSCRIBE channel_pattern*
4 SSUBSCRIBE channel*
4 UNSUBSCRIBE channel*
2 UNSUBSCRIBE
4 PUNSUBSCRIBE channel_pattern*
1 PUNSUBSCRIBE
3 SUNSUBSCRIBE channel*
1 SUNSUBSCRIBE
9 PUBLISH channel value
5 SPUBLISH channel value
3 PUBSUB CHANNELS [channel_pattern]
3 PUBSUB NUMSUB channel*
1 PUBSUB NUMSUB
2 PUBSUB NUMPAT
2 PUBSUB SHARDCHANNELS [channel_pattern]
2 PUBSUB SHARDNUMSUB channel*
1 PUBSUB HELP
1 PUBSUB <NOPE|NUMPAT 1|CHANNELS channel channel>
2 PING [value]
1 PING channel channel
1 GET string_key
1 SET string_key value
1 ECHO value
1 RESET
1 NOPE value
"""
