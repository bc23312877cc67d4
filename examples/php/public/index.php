<?php
// Every page of the shop: opens the session, runs the form's action, closes the session, then
// answers.
declare(strict_types=1);

require __DIR__ . '/../shop.php';
require __DIR__ . '/../actions.php';
require __DIR__ . '/../measure.php';

const PAGES = ['/' => 'products', '/cart' => 'cart', '/login' => 'login', '/handler' => 'handler'];
const ACTIONS = ['/add' => 'add', '/remove' => 'remove', '/log-in' => 'log_in',
    '/log-out' => 'log_out', '/count' => 'count_up'];

header("Content-Security-Policy: default-src 'self'; form-action 'self'; frame-ancestors 'none'");
$path = (string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$action = $_SERVER['REQUEST_METHOD'] === 'POST' ? ACTIONS[$path] ?? null : null;
$page = PAGES[$path] ?? null;

$start = hrtime(true);
if (!session_start()) {
    show('error', 503, 'The store of the sessions does not answer. Nothing is lost: please try'
        . ' again in a moment.');
}
$opened_us = (hrtime(true) - $start) / 1000;

$next = null;
error_clear_last();
$refused = $action !== null && !is_own_form();
if ($action !== null && !$refused) {
    // The action stores something, so a session exists from here on and its forms carry a token.
    $_SESSION['token'] ??= bin2hex(random_bytes(16));
    $next = $action();
}

// Before any output: it releases the lock for other requests, withdraws the cookie of an empty
// session, and lets the answer report only stored changes. session_write_close() always returns
// true, hence error_get_last().
session_write_close();
if (error_get_last() !== null) {
    show('error', 503, 'Your change could not be stored. Please try again in a moment.');
}

if ($refused) {
    show('error', 403, 'This form did not come from this shop, or it is older than your session.'
        . ' Please go back and try again.');
} elseif ($next !== null && accepts_json()) {
    header('Content-Type: application/json');
    echo json_encode(['count' => $_SESSION['count'] ?? 0, 'token' => $_SESSION['token'] ?? '',
        'worker' => getmypid()]);
} elseif ($next !== null) {
    header("Location: $next", true, 303);
} elseif ($page !== null) {
    show($page, 200);
} else {
    show('error', 404, 'There is no such page.');
}
