<?php
// Tables and histograms of the garbage collection experiment for a terminal.

/** The source timed this many starts; the first of a row are shown separately. */
const STARTS_OF_SOURCE = 1_000;

function complaint(Contender $contender): ?string
{
    $misses = array_sum(array_map(fn(Measured $row) => $row->misses, $contender->rows));
    $errors = array_sum(array_map(fn(Measured $row) => $row->errors, $contender->rows));
    $counted = "$misses sessions were not found, $errors starts failed";
    return $contender->failed ?? ($misses + $errors > 0 ? $counted : null);
}

function starts_tables(array $contenders): string
{
    $text = '';
    foreach ([null, STARTS_OF_SOURCE] as $first) {
        $text .= "\n" . ($first === null ? 'all starts'
            : 'the first ' . number_format($first) . ' of them, as many as the source timed') . "\n"
            . table_head('calls', '  modes');
        foreach ($contenders as $contender) {
            foreach ([GC_ON, GC_OFF, SWEPT_BESIDE, NOTHING] as $condition) {
                if (isset($contender->rows[$condition])) {
                    $ns = array_slice($contender->rows[$condition]->ns, 0, $first);
                    $text .= table_line($contender->name, $condition, number_format(count($ns)),
                        $ns, modes_text((new Histogram($ns))->modes()));
                }
            }
        }
    }
    return $text;
}

function deletion_table(array $contenders): string
{
    $text = '';
    foreach ($contenders as $contender) {
        foreach ([BEFORE_DELETION, BESIDE_DELETION] as $condition) {
            if (isset($contender->rows[$condition])) {
                $row = $contender->rows[$condition];
                $removal = $row->removal;
                $text .= table_line($contender->name, $condition,
                    $removal ? number_format($removal['removed']) : '', $row->ns,
                    $removal ? time_text($removal['seconds'] * 1e6) : '');
            }
        }
    }
    $title = "\nnine of ten expire: starts of the others at a fixed rate,"
        . " from the moment when each is due\n";
    return $text === '' ? '' : $title . table_head('removed', '  removed in') . $text;
}

function requests_table(array $contenders): string
{
    $text = '';
    foreach ($contenders as $contender) {
        if (isset($contender->rows[DELETED_BY_REQUESTS])) {
            $row = $contender->rows[DELETED_BY_REQUESTS];
            $text .= table_line($contender->name, GC_ON, number_format(count($row->ns)), $row->ns,
                modes_text($row->histogram()->modes()));
        }
    }
    $title = "\nnine of ten have expired: starts of the others, which remove them\n";
    return $text === '' ? '' : $title . table_head('calls', '  modes') . $text;
}

function complaints(array $contenders): string
{
    $text = '';
    foreach ($contenders as $contender) {
        $complaint = complaint($contender);
        $text .= $complaint === null ? '' : "\nFAILED: $contender->name: $complaint\n";
    }
    return $text;
}

function table_head(string $count, string $last): string
{
    return sprintf("%-32s %-24s %9s %9s %9s %9s %9s %9s%s\n", 'handler', '', $count, 'p50', 'p90',
        'p99', 'p99.9', 'max', $last);
}

function table_line(string $name, string $condition, string $count, array $ns, string $last): string
{
    $us = latency_us($ns);
    $times = array_map(time_text(...),
        [$us['p50'], $us['p90'], $us['p99'], $us['p999'], $us['max']]);
    return rtrim(sprintf("%-32s %-24s %9s %9s %9s %9s %9s %9s  %s", $name, $condition, $count,
        ...[...$times, $last])) . "\n";
}

function histograms(array $contenders, array $conditions): string
{
    $text = '';
    foreach ($contenders as $contender) {
        $columns = [];
        foreach ($conditions as $condition) {
            if (isset($contender->rows[$condition])) {
                $columns[$condition] = $contender->rows[$condition]->histogram();
            }
        }
        $text .= $columns ? "\n$contender->name\n" . draw($columns) : '';
    }
    return $text;
}
