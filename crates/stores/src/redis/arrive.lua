-- Stores the copy of a session that comes from another slot, under the caller's lock. A later copy
-- replaces an earlier one of the same caller, and no copy replaces none. KEYS[4]: the stream of
-- fences, which goes on above the lease's.
local _, now, fence, held, lock_ttl_ms, value, px = unpack(ARGV)
local refused = not mine and refuse_id(lock, data_key, wait_key, tonumber(now))
if refused then return refused end
redis.pcall('XADD', KEYS[4], 'MAXLEN', '0', fence, '', '') -- refused if it is there already
if not mine then call('DEL', data_key) end
if value ~= '' then call('SET', data_key, value, 'PX', px) end
call('SET', lock_key, held, 'PX', lock_ttl_ms)
return 0
