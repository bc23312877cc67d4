-- Moves the expiry of a live record without touching its payload: rewrites `ends` and `expires` in place.
-- The same rule as Ttl::deadline. Returns 0, or an answer of lease.lua.
local function slide(data_key, head, now, idle_ms, absolute_ms, slack_ms)
  if head == '' then return 3 end
  if #head < 58 or string.byte(head) ~= 83 then return 5 end
  local ends, expires = struct.unpack('<I8I8', head, 11)
  if string.byte(head, 2) ~= 76 or expires <= now then return 3 end
  if absolute_ms ~= '' then ends = struct.unpack('<I8', head, 43) + tonumber(absolute_ms) end
  expires = now + tonumber(idle_ms)
  if ends > 0 and ends < expires then expires = ends end
  redis.call('SETRANGE', data_key, 10, struct.pack('<I8I8', ends, expires))
  redis.call('PEXPIRE', data_key, math.max(expires - now, 1) + tonumber(slack_ms))
  return 0
end
