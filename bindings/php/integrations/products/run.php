<?php
// Checks products: php run.php HTTP HTTPS MIXED-HTTP MIXED-HTTPS DATABASE PRODUCT...
//
// The first four are ports, then comes a socket. A product is the name of a file beside this one,
// which returns its checks by name; NAME=WHY counts them as skipped. The last line has the totals.

require __DIR__ . '/browser.php';

[, $http, $https, $mixed_http, $mixed_https, $database] = $argv;
define('DATABASE', $database);
$ports = ['http' => (int) $http, 'https' => (int) $https];
$mixed_ports = ['http' => (int) $mixed_http, 'https' => (int) $mixed_https];

function browser(): Browser
{
    return new Browser($GLOBALS['ports']);
}

/** One for which Drupal has sessions over HTTP and HTTPS. */
function mixed_browser(): Browser
{
    return new Browser($GLOBALS['mixed_ports']);
}

function expect(bool $holds, string $what, ?Page $page = null): void
{
    $holds || throw new Exception($what . ($page ? "; $page->url answers " . $page->said() : ''));
}

$counts = ['passed' => 0, 'failed' => 0, 'skipped' => 0];
foreach (array_slice($argv, 6) as $product) {
    [$name, $why] = explode('=', $product, 2) + [1 => null];
    $checks = require __DIR__ . "/$name.php";
    if ($why !== null) {
        echo "skipped: $name, ", count($checks), " checks ($why)\n";
        $counts['skipped'] += count($checks);
        continue;
    }
    foreach ($checks as $title => $check) {
        try {
            $check();
            echo "$name: $title\n";
            $counts['passed']++;
        } catch (Throwable $e) {
            echo "failed: $name: $title: {$e->getMessage()} (line {$e->getLine()})\n";
            $counts['failed']++;
        }
    }
}
echo implode(', ', array_map(fn ($count, $what) => "$count $what", $counts,
    array_keys($counts))), "\n";
exit($counts['failed'] ? 1 : 0);
