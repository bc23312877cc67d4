<?php
// Timed session_start() and session_write_close() of random sessions, without change. Content is
// verified after the clock stops; missing sessions are counted.

final class Starts
{
    public array $ns = [];
    public int $misses = 0;
    public int $errors = 0;

    /** @param int|null $due start of the visitor's wait; null: start of the call */
    public function one(string $id, int $i, ?int $due = null): int
    {
        $begin = hrtime(true);
        session_id($id);
        $started = session_start();
        session_write_close();
        $end = hrtime(true);
        $this->ns[] = $end - ($due ?? $begin);
        if (!$started) {
            $this->errors++;
        } elseif (!is_whole($i)) {
            $this->misses++;
        }
        return $end;
    }

    public function answer(float $cpu_us): array
    {
        return ['ns' => $this->ns, 'misses' => $this->misses, 'errors' => $this->errors,
            'cpu_us' => $cpu_us];
    }
}

/** CPU time of this process. The kernel counts it exactly, although getrusage() is old. */
function cpu_us(): float
{
    $used = getrusage();
    return ($used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']) * 1e6 + $used['ru_utime.tv_usec']
        + $used['ru_stime.tv_usec'];
}

/** @param int $each 1: any session; more: only those whose number it divides */
function starts(array $ids, int $most, float $seconds, int $gc_probability, int $each): array
{
    ini_set('session.gc_probability', $gc_probability);
    $last = intdiv(count($ids) - 1, $each);
    $starts = new Starts();
    $cpu = cpu_us();
    $end = hrtime(true) + (int) ($seconds * 1e9);
    $now = 0;
    for ($n = 0; $n < $most && $now < $end; $n++) {
        $i = mt_rand(0, $last) * $each;
        $now = $starts->one($ids[$i], $i);
    }
    return $starts->answer(cpu_us() - $cpu);
}

/**
 * Idle calls that read the clock until the given nanoseconds are over. Their excess is caused by
 * the machine (timer interrupts, the hypervisor) and grows with the length of a call.
 */
function nothing(int $most, float $seconds, int $each_ns): array
{
    $nothing = new Starts();
    $cpu = cpu_us();
    $stop = hrtime(true) + (int) ($seconds * 1e9);
    $end = 0;
    for ($n = 0; $n < $most && $end < $stop; $n++) {
        $begin = hrtime(true);
        do {
            $end = hrtime(true);
        } while ($end - $begin < $each_ns);
        $nothing->ns[] = $end - $begin;
    }
    return $nothing->answer(cpu_us() - $cpu);
}

/** A visitor is due at each tick and waits from then on, even while the previous call runs. */
function paced_starts(array $ids, int $rate, int $each): array
{
    ini_set('session.gc_probability', 0);
    $last = intdiv(count($ids) - 1, $each);
    $starts = new Starts();
    $cpu = cpu_us();
    $tick = intdiv(1_000_000_000, $rate);
    $due = hrtime(true);
    while (!is_asked()) {
        $due += $tick;
        $i = mt_rand(0, $last) * $each;
        // No sleep: a wake-up takes longer than most calls.
        while (hrtime(true) < $due);
        $starts->one($ids[$i], $i, $due);
    }
    fgets(STDIN);
    return $starts->answer(cpu_us() - $cpu);
}

function is_asked(): bool
{
    $read = [STDIN];
    $none = null;
    return stream_select($read, $none, $none, 0) > 0;
}
