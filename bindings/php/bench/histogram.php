<?php
// Latencies in logarithmic bins: quantiles, the number of modes by a fixed rule, and a drawing for
// the terminal.

/** Counts of calls, in bins of a tenth of a decade: each begins at 1.26 times the previous one. */
final class Histogram
{
    public const BINS_PER_DECADE = 10;

    // The rule of modes. Two groups of calls are two modes if all of these hold; rarer calls are
    // outliers, nearer ones a shoulder.
    //
    // * Two consecutive bins lie between them, so that their nearest ends differ by a factor of
    //   1.6.
    // * Neither of these bins has a tenth of the calls of the fullest bin of either group.
    // * Each group has at least 1 % of all calls and at least 20 of them.
    private const GAP_BINS = 2;
    private const VALLEY = 0.1;
    private const LEAST_PART = 0.01;
    private const LEAST_CALLS = 20;

    /** @var array<int, int> calls by bin, without holes, lowest bin first */
    private array $calls = [];
    private int $total;

    public function __construct(array $ns)
    {
        $counted = array_count_values(array_map(self::bin_of(...), $ns));
        $this->total = count($ns);
        if ($counted) {
            foreach (range(min(array_keys($counted)), max(array_keys($counted))) as $bin) {
                $this->calls[$bin] = $counted[$bin] ?? 0;
            }
        }
    }

    public static function us_of(int $bin): float
    {
        return 10 ** ($bin / self::BINS_PER_DECADE) / 1e3;
    }

    private static function bin_of(int $ns): int
    {
        return (int) floor(log10(max(1, $ns)) * self::BINS_PER_DECADE);
    }

    public function calls(): array
    {
        return $this->calls;
    }

    /**
     * Fastest first; the first three fields are bins.
     *
     * @return list<array{from: int, to: int, fullest: int, calls: int, part: float}>
     */
    public function modes(): array
    {
        if (!$this->calls) {
            return [];
        }
        $least = max(self::LEAST_CALLS, self::LEAST_PART * $this->total);
        $groups = $this->split(array_key_first($this->calls), array_key_last($this->calls), $least);
        return array_map(function (array $group): array {
            $counts = $this->between(...$group);
            $calls = array_sum($counts);
            return ['from' => $group[0], 'to' => $group[1],
                'fullest' => $group[0] + array_search(max($counts), $counts, true),
                'calls' => $calls, 'part' => $calls / $this->total];
        }, $groups);
    }

    /**
     * @return list<array{int, int}> first and last bin of each group; a gap belongs to the faster
     */
    private function split(int $first, int $last, float $least): array
    {
        $deepest = self::VALLEY;
        $cut = null;
        for ($gap = $first + 1; $gap + self::GAP_BINS <= $last; $gap++) {
            $beyond = $gap + self::GAP_BINS;
            $left = $this->between($first, $gap - 1);
            $right = $this->between($beyond, $last);
            if (array_sum($left) < $least || array_sum($right) < $least) {
                continue;
            }
            $depth = max($this->between($gap, $beyond - 1)) / min(max($left), max($right));
            if ($depth < $deepest) {
                $deepest = $depth;
                $cut = $beyond;
            }
        }
        if ($cut === null) {
            return [[$first, $last]];
        }
        return [...$this->split($first, $cut - 1, $least), ...$this->split($cut, $last, $least)];
    }

    /** @return list<int> */
    private function between(int $first, int $last): array
    {
        return array_slice($this->calls, $first - array_key_first($this->calls),
            $last - $first + 1);
    }
}

/**
 * Quantiles in microseconds: at most this part of all calls took longer.
 *
 * @param list<int> $ns
 * @return array{min: float, p50: float, p90: float, p99: float, p999: float, max: float}
 */
function latency_us(array $ns): array
{
    sort($ns);
    $at = fn(float $part): float => $ns ? $ns[max(0, (int) ceil($part * count($ns)) - 1)] / 1e3
        : 0.0;
    return ['min' => $at(0), 'p50' => $at(0.5), 'p90' => $at(0.9), 'p99' => $at(0.99),
        'p999' => $at(0.999), 'max' => $at(1)];
}

/** A time in three digits: 4.21 us, 42.1 us, 421 ms, 4.21 s. */
function time_text(float $us): string
{
    [$value, $unit] = match (true) {
        $us < 999.5 => [$us, 'us'],
        $us < 999.5e3 => [$us / 1e3, 'ms'],
        default => [$us / 1e6, 's'],
    };
    $decimals = $value < 9.995 ? 2 : ($value < 99.95 ? 1 : 0);
    return sprintf("%.{$decimals}f %s", $value, $unit);
}

/** `1`, or the number of modes with the fullest bin and share of calls of each. */
function modes_text(array $modes): string
{
    if (count($modes) < 2) {
        return (string) count($modes);
    }
    $time = fn(array $mode) => time_text(Histogram::us_of($mode['fullest']));
    $text = fn(array $mode) => sprintf('%.0f %% at %s', $mode['part'] * 100, $time($mode));
    $each = array_map($text, $modes);
    return count($modes) . ' (' . implode(', ', $each) . ')';
}

/**
 * Histograms in columns. A bar is as long as its share of calls; one call is visible.
 *
 * @param array<string, Histogram> $columns
 */
function draw(array $columns, int $width = 24): string
{
    $rows = array_merge(
        ...array_map(fn(Histogram $each) => array_keys($each->calls()), array_values($columns)));
    $lines = sprintf("  %9s", 'from');
    foreach (array_keys($columns) as $title) {
        $lines .= sprintf("  %8s %-{$width}s", 'calls', $title);
    }
    $lines = rtrim($lines) . "\n";
    $skipped = false;
    foreach ($rows ? range(min($rows), max($rows)) : [] as $bin) {
        $line = '';
        $any = false;
        foreach ($columns as $histogram) {
            $calls = $histogram->calls()[$bin] ?? 0;
            $any = $any || $calls > 0;
            $all = max(1, array_sum($histogram->calls()));
            $length = $calls / $all * $width;
            $seen = $length < 0.5 ? '.' : str_repeat('#', (int) round($length));
            $bar = $calls === 0 ? '' : $seen;
            $line .= sprintf("  %8s %-{$width}s", $calls ? number_format($calls) : '', $bar);
        }
        if ($any) {
            $lines .= rtrim(sprintf('  %9s', time_text(Histogram::us_of($bin))) . $line) . "\n";
        } elseif (!$skipped) {
            $lines .= sprintf("  %9s\n", ':');
        }
        $skipped = !$any;
    }
    return $lines;
}
