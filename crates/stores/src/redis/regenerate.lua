-- Moves the lock and the record, if there is one, to a new id. An alias leads there for the grace.
local new_lock, new_data, new_wait = unpack(KEYS, 4)
local _, read, now, held, lock_ttl_ms, alias, px, record = unpack(ARGV)
local there = call('GET', new_lock)
if there and string.sub(there, 1, 17) == 'L' .. token then -- the answer was lost
  call('PEXPIRE', new_lock, call('PTTL', new_lock)) -- see replicas.rs
  return 0
end
local stamp = call('GETRANGE', data_key, 1, 17)
local refused = refuse_lease(stamp, read) or refuse_id(there, new_data, new_wait, tonumber(now))
if refused then return refused end
call('DEL', new_data)
if record == '1' and stamp ~= '' then call('RENAME', data_key, new_data) end
if record == '1' then call('SET', data_key, alias, 'PX', px) end
call('SET', new_lock, held, 'PX', lock_ttl_ms)
call('DEL', lock_key)
-- No reservation: the waiters follow the alias, each one waking the next (begin.lua).
if lock and string.byte(lock, 18) ~= 48 then wake() end
return 0
