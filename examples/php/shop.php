<?php
// What the shop sells, and what its pages are made of. $_SESSION may have: cart (product => pieces), name, count, token.
declare(strict_types=1);

const PRODUCTS = [
    'anchor' => ['Anchor', 'Four flukes. Holds a boat of up to nine metres, or an argument.', 8900],
    'doorstop' => ['Doorstop', 'A wedge of oak. Has never been seen to move.', 1250],
    'paperweight' => ['Paperweight', 'A dome of glass for papers that would like to leave.', 2400],
    'pan' => ['Cast-iron pan', 'Once it is on the stove you will not want to lift it.', 4900],
    'bonsai' => ['Bonsai', 'Rooted since 1998. Please water on Fridays.', 12000],
    'bollard' => ['Bollard', 'For your own quay. Delivery by crane.', 34900],
];

function escaped(string|int $text): string
{
    return htmlspecialchars((string) $text);
}

function euros(int $cents): string
{
    return '&euro; ' . number_format($cents / 100, 2);
}

/** The pieces of each product; a session may be older than what is sold today. */
function cart(): array
{
    return array_intersect_key($_SESSION['cart'] ?? [], PRODUCTS);
}

function picture(string $product): string
{
    return "<svg class=\"picture\" aria-hidden=\"true\"><use href=\"/pictures.svg#$product\"/></svg>";
}

/** The start of a form; a visitor without a session has no token, and gets none, as that would be a session. */
function form(string $action, string $attributes = ''): string
{
    $token = escaped($_SESSION['token'] ?? '');
    return "<form method=\"post\" action=\"$action\" $attributes><input type=\"hidden\" name=\"token\" value=\"$token\">";
}

/** Shows a page in the layout, and ends the request. The session is closed by then, and only read. */
function show(string $page, int $status, string $message = ''): never
{
    global $opened_us;
    http_response_code($status);
    // The page first: it may use a session once more, for which nothing must have been sent.
    ob_start();
    require __DIR__ . "/pages/$page.php";
    $content = ob_get_clean();
    require __DIR__ . '/pages/layout.php';
    exit;
}
