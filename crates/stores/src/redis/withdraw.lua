-- Removes a copy that has arrived for nothing, if the caller still has its lock.
if mine then call('DEL', data_key, lock_key) end
return 0
