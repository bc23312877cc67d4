-- Stores a new record. When it is there by this writer, the answer was lost.
local _, value, px, now = unpack(ARGV)
if call('GETRANGE', data_key, 2, 9) == string.sub(token, 1, 8) then
  call('PEXPIRE', data_key, call('PTTL', data_key)) -- see replicas.rs
  return 0
end
local refused = refuse_id(lock, data_key, wait_key, tonumber(now))
if not refused then call('SET', data_key, value, 'PX', px) end
return refused or 0
