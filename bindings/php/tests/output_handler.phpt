--TEST--
a session that is opened and saved in nested output handlers
--FILE--
<?php
require __DIR__ . '/common.inc';
$code = <<<'CODE'
    function counting(string $text): string
    {
        start($GLOBALS['argv'][1]);
        $_SESSION['bytes'] = ($_SESSION['bytes'] ?? 0) + strlen($text);
        session_write_close();
        return $text;
    }
    ob_start('counting');
    ob_start('counting');
    echo 'four';
    CODE;
$id = fresh_id();
echo finish(child($code, $id)), ' ', json_encode(stored($id)), "\n";
// One of them leaves it open.
$code = 'ob_start(function ($text) { start($GLOBALS["argv"][1]); $_SESSION["bytes"] = 1; return $text; }); echo "text";';
echo finish(child($code, $id)), ' ', json_encode(stored($id)), "\n";
?>
--EXPECT--
four {"bytes":8}
text {"bytes":1}
