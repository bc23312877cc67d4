<?php

namespace Sessile\Laravel;

/**
 * Laravel's sessions, each carried by a native PHP session under the same id.
 *
 * Laravel reads at the start of a request and writes at its end. The native session stays open in
 * between and holds the lock: requests on one session take turns. Cookies, ids and payload content
 * belong to Laravel.
 */
final class SessileHandler implements \SessionHandlerInterface
{
    private const PAYLOAD = 'laravel';

    /**
     * @param array{int, int} $lottery [n, of]: n of this many requests collect garbage
     * @param \Closure(): ?string $owner the user who is logged in, if this request knows
     */
    public function __construct(private int $seconds, private array $lottery,
        private \Closure $owner)
    {
    }

    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string
    {
        $this->hold($id);
        return $_SESSION[self::PAYLOAD] ?? '';
    }

    public function write(string $id, string $data): bool
    {
        $this->hold($id);
        $_SESSION = [self::PAYLOAD => $data];
        $owner = ($this->owner)();
        if ($owner !== null) {
            @sessile_set_owner($owner); // memcached and PHP's own files keep none
        }
        // PHP answers true also when the save failed.
        $failed = sessile_counters()['failed_saves'];
        return session_write_close() && sessile_counters()['failed_saves'] === $failed;
    }

    public function destroy(string $id): bool
    {
        $this->hold($id);
        $_SESSION = [];
        return session_destroy();
    }

    /** PHP collected when the session began, within a budget. */
    public function gc(int $max_lifetime): int
    {
        return 0;
    }

    private function hold(string $id): void
    {
        if (session_status() === PHP_SESSION_ACTIVE) {
            if (session_id() === $id) {
                return;
            }
            // Laravel continues under another id; the record of the old one stays.
            session_abort();
        }
        session_id($id);
        $started = session_start([
            'use_cookies' => 0,
            'cache_limiter' => '',
            // Laravel made the id; the session may be new.
            'use_strict_mode' => 0,
            'gc_maxlifetime' => $this->seconds,
            'gc_probability' => $this->lottery[0],
            'gc_divisor' => $this->lottery[1],
        ]);
        if (!$started) {
            throw new \RuntimeException(
                'the session cannot be opened; the warning before says why');
        }
    }
}
