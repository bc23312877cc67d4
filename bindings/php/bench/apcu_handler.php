<?php
// Sessions in APCu, as applications do it: without a lock.

final class ApcuHandler implements SessionHandlerInterface
{
    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string|false
    {
        return apcu_fetch($id) ?: '';
    }

    public function write(string $id, string $data): bool
    {
        return apcu_store($id, $data, (int) ini_get('session.gc_maxlifetime'));
    }

    public function destroy(string $id): bool
    {
        apcu_delete($id);
        return true;
    }

    public function gc(int $max_lifetime): int|false
    {
        return 0;
    }
}
