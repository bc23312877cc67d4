-- Moves the expiry in place, by the rule of Ttl::deadline. Answers 0 or where the id leads; with a
-- lease (`token` is not empty), which it renews, the new stamp.
local _, now, idle_ms, absolute_ms, slack_ms, read, lock_ttl_ms = unpack(ARGV)
local head, now = call('GETRANGE', data_key, 0, 57), tonumber(now)
local refused = token ~= '' and refuse_lease(string.sub(head, 2, 18), read)
if refused then return refused end
if token == '' and leads_on(head, now) then return call('GETRANGE', data_key, 58, -1) end
if #head < 58 or string.byte(head) ~= 83 then return head == '' and 3 or 5 end
local ends, expires = struct.unpack('<I8I8', head, 11)
local kind = string.byte(head, 2)
if kind ~= 76 and kind ~= 79 or expires <= now then return 3 end
if absolute_ms ~= '' then ends = struct.unpack('<I8', head, 43) + tonumber(absolute_ms) end
expires = now + tonumber(idle_ms)
if ends > 0 and ends < expires then expires = ends end
call('SETRANGE', data_key, 10, struct.pack('<I8I8', ends, expires))
call('PEXPIRE', data_key, math.max(expires - now, 1) + tonumber(slack_ms))
if token == '' then return 0 end
if lock then call('PEXPIRE', lock_key, lock_ttl_ms) end
return call('GETRANGE', data_key, 1, 17)
