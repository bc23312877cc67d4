-- Replaces a record, whose copy has arrived in another slot, by an alias, and gives up the lock.
-- Answers the record's head if it is not the one that was copied: it was touched since.
local _, read, alias, px, record, copied = unpack(ARGV)
local head = call('GETRANGE', data_key, 0, 57)
local stamp = string.sub(head, 2, 18)
if record == '1' and string.sub(stamp, 1, 9) == 'A' .. string.sub(token, 1, 8) then
  if call('GETRANGE', data_key, 58, -1) ~= string.sub(alias, 59) then return 1 end
  call('PEXPIRE', data_key, call('PTTL', data_key)) -- see replicas.rs
  return 0 -- the answer was lost
end
local refused = refuse_lease(stamp, read)
if refused then return refused end
if record == '1' and head ~= '' and head ~= copied then return head end
call('DEL', lock_key) -- never refused; after it a full server takes the alias too
if record == '1' then call('SET', data_key, alias, 'PX', px) end
-- No reservation: the waiters follow the alias, each one waking the next (begin.lua).
if lock and string.byte(lock, 18) ~= 48 then wake() end
return 0
