--TEST--
an attacker who planted an id before a log-in is not in after it, also within the grace and behind a handler in PHP
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach ([null, new SessionHandler()] as $handler) {
    if ($handler) {
        session_set_save_handler($handler);
    }
    $planted = fresh_id();
    start($planted);
    $_SESSION['cart'] = ['book'];
    session_write_close();
    // The commonest log-in code.
    start($planted);
    if ($first = !($first ?? false)) {
        $_SESSION['user'] = 'victim';
    }
    session_regenerate_id();
    $_SESSION['user'] = 'victim';
    session_write_close();
    // The attacker, while the page of the log-in is still loading.
    start($planted);
    echo json_encode($_SESSION), "\n";
    $_SESSION['mine'] = true;
    session_write_close();
    start($planted, ['read_and_close' => true]);
    echo json_encode($_SESSION), "\n";
}
?>
--EXPECT--
{"cart":["book"]}
{"cart":["book"]}
{"cart":["book"]}
{"cart":["book"]}
