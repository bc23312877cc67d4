<?php
// The phases of the garbage collection experiment. Each adds rows to its contender.

const GC_ON = 'gc 1/10';
const GC_OFF = 'gc off';
const SWEPT_BESIDE = 'gc off, a sweep beside';
const NOTHING = 'nothing, as long as with gc';
const BEFORE_DELETION = 'before deletion';
const BESIDE_DELETION = 'beside deletion';
const DELETED_BY_REQUESTS = 'gc 1/10, 9 of 10 expired';

// Starts per second during a deletion. The slowest handler can do several times as many.
const PACE = 2_000;
const SECONDS_BEFORE_DELETION = 2;
const DELETION_SECONDS_MAX = 600;
// The part of the expired sessions after which a server is done: Redis pauses when fewer than a
// tenth of the keys in its sample have expired.
const REMOVED_BY_SERVER = 0.95;

// Time for the filled sessions to reach the disk before the first one expires.
const SYNC_SECONDS = 20;

final class Phases
{
    public function __construct(
        private readonly array $contenders,
        private readonly Places $at,
        private readonly int $starts,
        private readonly int $rounds,
        private readonly float $seconds,
        private readonly bool $sync,
    ) {
    }

    /** All contenders take turns in random order. The disk is synced first. */
    public function starts(): void
    {
        $at = $this->at->within('starts');
        $workers = [];
        $turns = [];
        foreach ($this->contenders as $contender) {
            fwrite(STDERR, "fill in: $contender->name\n");
            $contender->move_to($at);
            $worker = $contender->worker();
            $worker->ask('fill');
            $workers[] = $worker;
            $beside = $contender->remover === Remover::Beside;
            foreach ($beside ? [SWEPT_BESIDE] : [GC_ON, GC_OFF] as $condition) {
                $turns[] = [$contender, $worker, $condition];
            }
        }
        $this->sync();
        for ($round = 1; $round <= $this->rounds; $round++) {
            fwrite(STDERR, "starts: round $round of $this->rounds\n");
            shuffle($turns);
            foreach ($turns as $turn) {
                $this->round_of(...$turn);
            }
        }
        foreach ($workers as $worker) {
            $worker->end();
        }
        $this->clear($at);
    }

    private function round_of(Contender $contender, Peer $worker, string $condition): void
    {
        $sweeper = $condition === SWEPT_BESIDE ? $contender->sweeper() : null;
        $sweeper?->send('begin');
        $most = intdiv($this->starts - 1, $this->rounds) + 1;
        $request = sprintf('starts %d %F %d 1', $most, $this->seconds / $this->rounds,
            $condition === GC_ON ? 1 : 0);
        $starts = $worker->ask($request);
        $contender->row($condition)->add($starts);
        $sweeper?->send('end');
        $sweeper?->receive();
        $sweeper?->end();
        if ($condition === GC_ON && $starts['ns']) {
            $median = (int) (latency_us($starts['ns'])['p50'] * 1e3);
            $request = sprintf('nothing %d %F %d', $most, $this->seconds / $this->rounds, $median);
            $contender->row(NOTHING)->add($worker->ask($request));
        }
    }

    public function deletion(Contender $contender): void
    {
        fwrite(STDERR, "deletion: $contender->name\n");
        $at = $this->at->within('deletion');
        $contender->move_to($at);
        [$worker, $visitors] = [$contender->worker(), $contender->worker()];
        $sweeper = $contender->remover === Remover::Beside ? $contender->sweeper() : null;
        $before = min(SECONDS_BEFORE_DELETION, $this->seconds / 4);
        $moment = $this->fill_expiring($contender, $worker, (int) ceil(2 * $before) + 1);
        $keys = $contender->remover === Remover::Server ? $this->keys_of_server() : 0;
        // Faults in untouched pages are not part of the measurement.
        $visitors->ask(sprintf('starts %d %F 0 %d', $this->starts, $before, SURVIVOR));
        $visitors->send('paced ' . PACE . ' ' . SURVIVOR);
        usleep((int) ($before * 1e6));
        $visitors->send('end');
        $contender->row(BEFORE_DELETION)->add($visitors->receive());
        if (microtime(true) > $moment && !str_starts_with($contender->name, 'files')) {
            $contender->failed ??= 'sessions expired before everything was ready:'
                . ' this machine is too unsteady';
        }

        wait_until($contender->remover === Remover::Server ? $moment : $moment + 1.1);
        $visitors->send('paced ' . PACE . ' ' . SURVIVOR);
        $removal = match ($contender->remover) {
            Remover::Beside => $sweeper->ask('once'),
            Remover::Server => $this->wait_for_server($contender, $keys, $moment),
            default => $worker->ask('collect'),
        };
        $visitors->send('end');
        $row = $contender->row(BESIDE_DELETION);
        $row->add($visitors->receive());
        $row->removal = $removal;
        $visitors->end();
        $sweeper?->end();
        $this->finish($contender, $worker, $at);
    }

    public function deletion_by_requests(Contender $contender): void
    {
        fwrite(STDERR, "deletion by requests: $contender->name\n");
        $at = $this->at->within('requests');
        $contender->move_to($at);
        $worker = $contender->worker();
        wait_until($this->fill_expiring($contender, $worker, 0) + 1.1);
        $request = sprintf('starts %d %F 1 %d', $this->starts, $this->seconds, SURVIVOR);
        $contender->row(DELETED_BY_REQUESTS)->add($worker->ask($request));
        $this->finish($contender, $worker, $at);
    }

    private function fill_expiring(Contender $contender, Peer $worker, int $margin): int
    {
        $on_disk = $this->sync && $contender->remover !== Remover::Server;
        $moment = $worker->ask('fill-expiring '
            . ($margin + ($on_disk ? SYNC_SECONDS : 0)))['moment'];
        $this->sync();
        return $moment;
    }

    private function finish(Contender $contender, Peer $worker, Places $at): void
    {
        ['lost' => $lost, 'risen' => $risen] = $worker->ask('survivors');
        if ($lost > 0 || $risen > 0) {
            $contender->failed ??= "$lost sessions that live on are gone or damaged,"
                . " $risen of a thousand expired ones are served";
        }
        $worker->end();
        $this->clear($at);
    }

    private function sync(): void
    {
        if ($this->sync) {
            exec('sync -f ' . escapeshellarg($this->at->disk));
        }
    }

    private function clear(Places $at): void
    {
        exec('rm -rf ' . escapeshellarg($at->shm) . ' ' . escapeshellarg($at->disk));
        if ($at->has_redis()) {
            $this->ask_server('FLUSHALL');
        }
    }

    /** Waits from the first expiry on; the last one is up to a second later. */
    private function wait_for_server(Contender $contender, int $before, int $moment): array
    {
        $enough = (int) ceil($contender->sessions_that_expire() * REMOVED_BY_SERVER);
        do {
            usleep(5_000);
            $removed = $before - $this->keys_of_server();
            $seconds = microtime(true) - $moment;
        } while ($removed < $enough && $seconds < DELETION_SECONDS_MAX);
        if ($removed < $enough) {
            $contender->failed ??= sprintf('the server has removed %d of %d sessions in %.0f s',
                $removed, $contender->sessions_that_expire(), $seconds);
        }
        return ['removed' => $removed, 'seconds' => $seconds];
    }

    private function keys_of_server(): int
    {
        return (int) substr($this->ask_server('DBSIZE'), 1);
    }

    private function ask_server(string $command): string
    {
        $server = stream_socket_client("unix://{$this->at->redis}");
        fwrite($server, "$command\r\n");
        $answer = (string) fgets($server);
        fclose($server);
        return $answer;
    }
}

function wait_until(float $moment): void
{
    while (($left = $moment - microtime(true)) > 0) {
        usleep((int) ($left * 1e6) + 1);
    }
}
