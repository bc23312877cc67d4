<?php
// One handler in one process: fills its sessions in, then changes one value of a random one, again and again.
// Asked through standard input (`fill`, `run SECONDS`), answers with a line of JSON. php worker.php SESSIONS SEED [apcu]
[, $sessions, $seed] = $argv;

/** Sessions in APCu, as applications do it: without a lock. */
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

if (($argv[3] ?? '') === 'apcu') {
    session_set_save_handler(new ApcuHandler());
}

// 1,400 bytes when serialised.
const TEXT_BYTES = 1360;
mt_srand((int) $seed);
$ids = [];
for ($i = 0; $i < $sessions; $i++) {
    $ids[] = sprintf('%08x%08x%08x%08x', mt_rand(), mt_rand(), mt_rand(), $i);
}

/** One that cannot be started leaves an array that looks like a session. */
function start(string $id, array $options = []): void
{
    session_id($id);
    if (!session_start($options)) {
        fwrite(STDERR, "a session cannot be started\n");
        exit(1);
    }
}

function change(string $id): void
{
    start($id);
    $_SESSION['n'] = $_SESSION['n'] + 1;
    session_write_close();
}

while (($line = fgets(STDIN)) !== false) {
    [$verb, $seconds] = explode(' ', trim($line)) + [1 => 0];
    if ($verb === 'fill') {
        foreach ($ids as $i => $id) {
            start($id);
            $_SESSION = ['n' => 0, 'text' => str_pad((string) $i, TEXT_BYTES, 'x')];
            session_write_close();
        }
        $answer = ['filled' => count($ids)];
    } elseif ($verb === 'run') {
        $last = count($ids) - 1;
        $cycles = 0;
        $begin = hrtime(true);
        $end = $begin + (int) ($seconds * 1e9);
        do {
            for ($i = 0; $i < 128; $i++) {
                change($ids[mt_rand(0, $last)]); // any of them: the draw costs some 0.03 us in every row
            }
            $cycles += 128;
            $now = hrtime(true);
        } while ($now < $end);
        $answer = ['cycles' => $cycles, 'us' => ($now - $begin) / 1e3 / $cycles];
    } else {
        $sum = 0;
        foreach ($ids as $i => $id) {
            start($id, ['read_and_close' => true]);
            $whole = $_SESSION['text'] === str_pad((string) $i, TEXT_BYTES, 'x');
            $sum += $whole ? $_SESSION['n'] : 0;
        }
        $answer = ['sum' => $sum];
    }
    fwrite(STDOUT, json_encode($answer) . "\n");
}
