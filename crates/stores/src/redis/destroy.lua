-- Replaces the record by a tombstone and voids the lease. Does nothing but answer where the id
-- leads, if that is none of the visited ids (ARGV[5] and on): it has to be destroyed first.
local _, tombstone, px, now = unpack(ARGV)
if leads_on(call('GETRANGE', data_key, 0, 25), tonumber(now)) then
  local target, visited = call('GETRANGE', data_key, 58, -1), false
  for at = 5, #ARGV do visited = visited or ARGV[at] == target end
  if not visited then return target end
end
call('DEL', data_key) -- never refused; after it a full server takes the tombstone too
if lock and string.byte(lock) == 76 then unlock() end
call('SET', data_key, tombstone, 'PX', px)
return 0
