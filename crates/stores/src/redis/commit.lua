-- Writes the record and releases. Answers the stamp when an unleased touch moved the absolute end.
local _, read, value, px, trusted = unpack(ARGV)
local stamp = call('GETRANGE', data_key, 1, 17)
if not mine then
  local kind = string.sub(stamp, 1, 1)
  local live = kind == 'L' or kind == 'O' -- with an owner
  local committed = live and string.sub(stamp, 2, 9) == string.sub(token, 1, 8)
  local released = lock and string.sub(lock, 1, 17) == 'R' .. token
  if committed or released then -- the answer was lost
    if stamp ~= '' then call('PEXPIRE', data_key, call('PTTL', data_key)) end -- see replicas.rs
    return 0
  end
  local refused = refuse_lease(stamp, read) or stamp == '' and trusted == '0' and 3
  if refused then return refused end
end
if stamp ~= '' and stamp ~= read then return stamp end
call('SET', data_key, value, 'PX', px)
if mine then unlock() end
return 0
