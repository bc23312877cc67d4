<?php
// A page that needs a registry of everything the site can show. It is kept in a cache, because to
// build it takes long; when the cache does not have it, this view builds it and saves it for the
// next one. Whether the save worked nobody asks, as in the site of the published measurement.
// `sessile bench rebuild` asks for the page with ab.

const VALUE_BYTES = 64;
/** What a value takes in PHP's own format, about. */
const ENTRY_BYTES = 80;
/** What stands for the reading and parsing that a real registry is made of. */
const PASSES = 10;
const SHOWN = 100;

require __DIR__ . '/cache.php';

function value(int $number): string
{
    $value = "entry $number";
    for ($pass = 0; $pass < PASSES; $pass++) {
        $value = md5($value);
    }
    if (!isset($_GET['compress'])) {
        return $value . md5($value);
    }
    // As in a registry of templates: most of it is said again and again, and each entry has
    // something of its own.
    $own = '/module-' . substr($value, 0, 2) . '/theme/block--' . substr($value, 2, 8);
    return str_pad('sites/all/modules' . $own, VALUE_BYTES - 8, '-') . '.tpl.php';
}

$entries = max(SHOWN, intdiv((int) ($_GET['bytes'] ?? 0), ENTRY_BYTES));

$moments = [hrtime(true)];
$registry = load();
$moments[] = hrtime(true);
$rebuilt = $registry === null;
if ($rebuilt) {
    $registry = array_map('value', range(0, $entries - 1));
}
$moments[] = hrtime(true);
$saved = !$rebuilt || save($registry);
$moments[] = hrtime(true);

// A cache that answers with something else is worse than one that does not.
if (count($registry) !== $entries || $registry[$entries - 1] !== value($entries - 1)) {
    http_response_code(500);
    exit('failed: the registry is not what was saved');
}
// One line in one write: views at the same time do not mix.
[$began, $loaded, $built, $ended] = $moments;
$steps = [$loaded - $began, (int) $rebuilt, $built - $loaded, (int) $saved, $ended - $built];
file_put_contents(__DIR__ . '/steps', implode(' ', $steps) . "\n", FILE_APPEND);
echo implode("\n", array_slice($registry, 0, SHOWN)), "\n";
