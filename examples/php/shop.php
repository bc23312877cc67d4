<?php
// The products, and the parts of pages. Keys of $_SESSION: cart (product => pieces), name, count,
// token.
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

/** Pieces by product. An old session may have products that are gone. */
function cart(): array
{
    return array_intersect_key($_SESSION['cart'] ?? [], PRODUCTS);
}

function picture(string $product): string
{
    $picture = "/pictures.svg#$product";
    return "<svg class=\"picture\" aria-hidden=\"true\"><use href=\"$picture\"/></svg>";
}

/** The start of a form. Without a session it has no token, since a token would need a session. */
function form(string $action, string $attributes = ''): string
{
    $token = escaped($_SESSION['token'] ?? '');
    return "<form method=\"post\" action=\"$action\" $attributes>"
        . "<input type=\"hidden\" name=\"token\" value=\"$token\">";
}

/** Shows a page in the layout and ends the request. The session is closed. */
function show(string $page, int $status, string $message = ''): never
{
    global $opened_us;
    http_response_code($status);
    // The page first: it may open a session, which must precede any output.
    ob_start();
    require __DIR__ . "/pages/$page.php";
    $content = ob_get_clean();
    require __DIR__ . '/pages/layout.php';
    exit;
}
