<?php
// The only request of a visitor who brings no cookie along: it starts a session, as code does that
// calls session_start() on each page. Most visitors leave it empty; with `stores=1` something is
// put into it.
// `eager=1` takes back the rule that an empty session of our own handler is not stored.
// `sessile bench lifecycle` counts what came of it.

const CART_BYTES = 1024;

$eager = ($_GET['eager'] ?? '0') === '1';
$sound = (!$eager || ini_set('sessile.lazy_start', '0') !== false) && session_start()
    && $_SESSION === [];
if (($_GET['stores'] ?? '0') === '1') {
    $_SESSION['cart'] = bin2hex(random_bytes(CART_BYTES >> 1));
}
// Before the first output: then a cookie can still be withdrawn.
$sound = session_write_close() && $sound;
http_response_code($sound ? 200 : 500);
echo $sound ? "seen\n" : 'failed: the session was not new and empty, or could not be saved';
