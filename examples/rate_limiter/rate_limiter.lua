#!lua name=rate_limiter
-- At most so many requests of a client in any stretch of time: a sorted set of the times of its requests.

-- allow client now_ms window_ms limit: {1, requests that are left} or {0, milliseconds until one is allowed}.
-- The client's clock is given, so that a test can be its own.
redis.register_function('allow', function(keys, args)
  local client, now, window, limit = args[1], tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
  local key = 'requests:' .. client
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
  local count = redis.call('ZCARD', key)
  if count >= limit then
    local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    return { 0, tonumber(oldest) + window - now }
  end
  -- Two requests of one millisecond are two members.
  redis.call('ZADD', key, now, now .. '-' .. redis.call('INCR', key .. ':number'))
  redis.call('PEXPIRE', key, window)
  redis.call('PEXPIRE', key .. ':number', window)
  return { 1, limit - count - 1 }
end)
