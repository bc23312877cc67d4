-- Replaces a live record of this owner by a tombstone and voids the lease.
local _, tombstone, px, now, owner = unpack(ARGV)
local head = call('GETRANGE', data_key, 0, 69)
if string.sub(head, 1, 2) ~= 'SO' or string.sub(head, 59, 70) ~= owner then return 3 end
if struct.unpack('<I8', head, 19) <= tonumber(now) then return 3 end
call('DEL', data_key) -- as in destroy.lua
if lock and string.byte(lock) == 76 then unlock() end
call('SET', data_key, tombstone, 'PX', px)
return 0
