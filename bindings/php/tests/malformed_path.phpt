--TEST--
a path that is no URL, or almost one, shows no password
--FILE--
<?php
require __DIR__ . '/common.inc';
ini_set('error_log', '/dev/null');
$paths = ['redis://u:ge#heim@127.0.0.1:1/0', 'redis://u:gehe/im@127.0.0.1', 'redis://u:geheim@127.0.0.1:x/0', 'redis//u:geheim@127.0.0.1',
    '127.0.0.1:1?auth=geheim', '/var/lib/php/sessions'];
foreach ($paths as $path) {
    session_save_path($path);
    ob_start();
    phpinfo(INFO_MODULES);
    session_start();
    $text = ob_get_clean();
    preg_match('/session\.save_path => (.*?) =>/', $text, $shown);
    echo preg_match('/geheim|heim@|im@/', $text) ? "PASSWORD: $text" : "$shown[1]\n";
}
?>
--EXPECT--
a malformed store URL
a malformed store URL
a malformed store URL
a malformed store URL
a malformed store URL
/var/lib/php/sessions
