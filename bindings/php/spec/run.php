<?php
// Runs the cases of spec/requests.toml through PHP: php run.php MODULE STORE-URL. Each request is
// a process.
//
// PHP does not tell what a save has done, only that it has failed, and saves and closes in one. So
// a save is right if it fails or not as the case says, and the next request sees what it should.

[, $module, $store] = $argv;

/** What the warning says of each code. */
const WORDS = [
    'lock-timeout' => 'holds the session',
    'unsupported' => 'read the session|read without its lock',
    'stale' => 'another request has changed',
    'invalid-argument' => 'cannot be serialised',
    'destroyed' => 'destroyed',
];
const SUCCESSES = ['stored', 'touched', 'nothing', 'withdraw-cookie', 'logged-out', 'replaced',
    'ended'];

/** The inline tables of the file: { name = "text", other = true }. */
function table(string $text): array
{
    preg_match_all('/(\w+) = (?:"([^"]*)"|\'([^\']*)\'|(\w+))/', $text, $pairs, PREG_SET_ORDER);
    $table = [];
    foreach ($pairs as $pair) {
        $table[$pair[1]] = match ($pair[4] ?? '') {
            '' => $pair[3] ?? '' ?: $pair[2],
            'true' => true,
            'false' => false,
            default => (int) $pair[4],
        };
    }
    return $table;
}

function cases(): array
{
    $text = file_get_contents(__DIR__ . '/../../../spec/requests.toml');
    $cases = [];
    foreach (array_slice(explode("[[case]]\n", $text), 1) as $case) {
        preg_match('/^name = "(.*)"$/m', $case, $name);
        preg_match('/^rules = (.*)$/m', $case, $rules);
        preg_match_all('/^    \{ (.*) \},$/m', $case, $steps);
        $cases[$name[1]] = [table($rules[1] ?? ''), array_map('table', $steps[1])];
    }
    return $cases;
}

/** Why PHP cannot run a case. */
function obstacle(array $rules, array $steps): ?string
{
    $texts = array_column($steps, 'put');
    [$open, $saved_twice] = [[], false];
    foreach ($steps as $step) {
        $by = $step['by'] ?? '';
        $saved_twice = $saved_twice || isset($step['save']) && !($open[$by] ?? false);
        $open[$by] = isset($step['start'])
            || ($open[$by] ?? false) && !isset($step['save']) && !isset($step['destroy']);
    }
    return match (true) {
        $saved_twice => 'a save closes the session',
        array_column($steps, 'advance') !== [] => 'time passes',
        array_column($steps, 'made') !== [] => 'an application chooses its new id',
        array_column($steps, 'headers') !== [] => 'the headers are sent',
        isset($rules['best_effort']) => 'the progress of an upload',
        in_array('an encrypted text', $texts, true) => 'another program encodes',
        default => null,
    };
}

class Request
{
    private $process;
    private array $pipes = [];

    public function __construct(array $rules)
    {
        global $module, $store;
        $settings = [
            'extension' => $module,
            'session.save_handler' => 'sessile',
            'session.save_path' => "\"$store\"",
            'session.gc_maxlifetime' => $rules['idle'] ?? 1440,
            'sessile.lock_wait' => 0,
            'sessile.first_lifetime' => $rules['first_lifetime'] ?? 0,
            'sessile.absolute_lifetime' => $rules['lifetime'] ?? 0,
            'sessile.grace' => $rules['grace'] ?? 30,
            'sessile.on_lock_timeout' =>
                ($rules['read_on_lock_timeout'] ?? false) ? 'read_only' : 'fail',
            'sessile.lazy_start' => (int) ($rules['lazy_start'] ?? true),
            'sessile.touch_unlocked' => (int) ($rules['touch_unlocked'] ?? false),
            'sessile.concurrency' => $rules['concurrency'] ?? 'exclusive',
            'sessile.merge_conflict' => $rules['merge_conflict'] ?? 'last',
        ];
        $command = [PHP_BINARY, '-n'];
        foreach ($settings as $name => $value) {
            array_push($command, '-d', "$name=$value");
        }
        $command[] = __DIR__ . '/request.php';
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes);
    }

    public function ask(string $command, mixed ...$arguments): array
    {
        fwrite($this->pipes[0], json_encode([$command, $arguments]) . "\n");
        return json_decode(fgets($this->pipes[1]) ?: '', true) ?? [false, 'the process has ended'];
    }

    public function __destruct()
    {
        fclose($this->pipes[0]);
        proc_close($this->process);
    }
}

/** Null, or what is wrong. */
function judge(mixed $result, string $warnings, ?string $code): ?string
{
    if ($code === null) {
        return $warnings === '' && $result !== false ? null : "fails: $warnings";
    }
    $words = WORDS[$code] ?? "no words for $code";
    return preg_match("/$words/", $warnings) ? null : "does not fail with $code: $warnings";
}

function run(array $rules, array $steps): ?string
{
    [$requests, $ids, $own] = [[], [], []];
    $id = function (string $name) use (&$ids) {
        return $ids[$name] ??= bin2hex(random_bytes(16));
    };
    foreach ($steps as $step) {
        $by = $step['by'];
        $request = $requests[$by] ??= new Request($rules);
        if (isset($step['start'])) {
            $own[$by] = $step['start'];
            [$result, $warnings] = $request->ask('start', $id($step['start']),
                $step['unlocked'] ?? false, $step['strict'] ?? false);
            $wrong = judge($result, $warnings, $step['fails'] ?? $step['warns'] ?? null);
            $sees = isset($step['sees']) ? 'sees ' . $step['sees'] : $result;
            $sees = ($step['known'] ?? true) ? $sees : 'another id';
            $wrong ??= $result === $sees ? null : "$result, and not $sees";
        } elseif (isset($step['put'])) {
            $wrong = judge(...[...$request->ask('put', $step['put']), null]);
        } elseif (isset($step['save'])) {
            $code = in_array($step['save'], SUCCESSES, true) ? null : $step['save'];
            $wrong = judge(...[...$request->ask('save'), $code]);
        } elseif (isset($step['regenerate'])) {
            [$result, $warnings] = $request->ask('regenerate', $step['deletes'] ?? false);
            $wrong = judge($result, $warnings, $step['fails'] ?? null);
            if (is_string($result)) {
                $ids[$step['regenerate']] = $result;
            }
        } elseif (isset($step['destroy'])) {
            $wrong = judge(...[...$request->ask('destroy', $id($step['destroy'])), null]);
        } else {
            $wrong = judge(...[...$request->ask('close'), null]);
        }
        if ($wrong !== null) {
            return json_encode($step) . ": $wrong";
        }
    }
    return null;
}

[$passed, $failed, $left] = [0, 0, 0];
foreach (cases() as $name => [$rules, $steps]) {
    if (obstacle($rules, $steps) !== null) {
        $left++;
        continue;
    }
    $wrong = run($rules, $steps);
    $wrong === null ? $passed++ : $failed++;
    if ($wrong !== null) {
        fwrite(STDERR, "failed: $name: $wrong\n");
    }
}
echo "the cases of spec/: $passed passed, $failed failed, $left not for PHP\n";
exit($failed > 0 || $passed === 0 ? 1 : 0);
