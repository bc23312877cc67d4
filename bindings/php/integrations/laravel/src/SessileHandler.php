<?php

namespace Sessile\Laravel;

/**
 * Laravel's sessions, each carried by a native session of PHP under the same id.
 *
 * Laravel reads at the start of a request and writes at its end. Between the two the native session stays open, and with it
 * the lock of the store: requests on one session take turns. Cookies, ids and what is in the payload are Laravel's affair.
 */
final class SessileHandler implements \SessionHandlerInterface
{
    private const PAYLOAD = 'laravel';

    /** @param array{int, int} $lottery how many requests of how many collect garbage */
    public function __construct(private int $seconds, private array $lottery)
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
        return session_write_close();
    }

    public function destroy(string $id): bool
    {
        $this->hold($id);
        $_SESSION = [];
        return session_destroy();
    }

    /** PHP has done it when the session began, in steps that no visitor notices. */
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
            // Laravel goes on under another id; what is stored under the old one stays as it was.
            session_abort();
        }
        session_id($id);
        $started = session_start([
            'use_cookies' => 0,
            'cache_limiter' => '',
            // Laravel has made the id, of a session that may be new.
            'use_strict_mode' => 0,
            'gc_maxlifetime' => $this->seconds,
            'gc_probability' => $this->lottery[0],
            'gc_divisor' => $this->lottery[1],
        ]);
        if (!$started) {
            throw new \RuntimeException('the session cannot be opened; the warning before says why');
        }
    }
}
