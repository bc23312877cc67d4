-- Stores the copy of a session that comes from another slot, under the caller's lock. A later copy
-- replaces an earlier one of the same caller, and no copy replaces none. KEYS[4]: the counter of
-- fences, which goes on above the lease's.
local _, now, fence, held, lock_ttl_ms, value, px = unpack(ARGV)
local refused = not mine and refuse_id(lock, data_key, wait_key, tonumber(now))
if refused then return refused end
if tonumber(call('GET', KEYS[4]) or 0) < tonumber(fence) then call('SET', KEYS[4], fence) end
if not mine then call('DEL', data_key) end
if value ~= '' then call('SET', data_key, value, 'PX', px) end
call('SET', lock_key, held, 'PX', lock_ttl_ms)
return 0
