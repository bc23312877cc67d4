-- Stores the copy of a session that comes from another slot, under the caller's lock. A later copy
-- replaces an earlier one of the same caller.
local _, now, held, lock_ttl_ms, value, px = unpack(ARGV)
local refused = not mine and refuse_id(lock, data_key, wait_key, tonumber(now))
if refused then return refused end
call('DEL', data_key)
if value ~= '' then call('SET', data_key, value, 'PX', px) end
call('SET', lock_key, held, 'PX', lock_ttl_ms)
return 0
