# The products, and the pages as HTML.
package Shop::Pages;
use strict;
use warnings;
use Sessile;
use Time::HiRes qw(time);

our @PRODUCTS = (
    [anchor      => 'Anchor', 'Four flukes. Holds a boat of up to nine metres, or an argument.', 8900],
    [doorstop    => 'Doorstop', 'A wedge of oak. Has never been seen to move.', 1250],
    [paperweight => 'Paperweight', 'A dome of glass for papers that would like to leave.', 2400],
    [pan         => 'Cast-iron pan', 'Once it is on the stove you will not want to lift it.', 4900],
    [bonsai      => 'Bonsai', 'Rooted since 1998. Please water on Fridays.', 12000],
    [bollard     => 'Bollard', 'For your own quay. Delivery by crane.', 34900],
);
our %PRODUCTS = map { $_->[0] => $_ } @PRODUCTS;

sub escaped {
    my ($text) = @_;
    my %entities = ('&' => '&amp;', '<' => '&lt;', '>' => '&gt;', '"' => '&quot;');
    return $text =~ s/([&<>"])/$entities{$1}/gr;
}

sub euros { return sprintf '&euro; %.2f', $_[0] / 100 }

sub picture {
    return qq(<svg class="picture" aria-hidden="true"><use href="/pictures.svg#$_[0]"/></svg>);
}

# The start of a form. Without a session it has no token, since a token would need a session.
sub form {
    my ($session, $action, $attributes) = @_;
    my $token = $session->{token} // '';
    return qq(<form method="post" action="$action" ) . ($attributes // '')
        . qq(><input type="hidden" name="token" value="$token">);
}

# The products in the cart, and the pieces. An old session may have products that are gone.
sub cart {
    my $cart = $_[0]{cart} // {};
    return map { $cart->{ $_->[0] } ? [@$_, $cart->{ $_->[0] }] : () } @PRODUCTS;
}

sub products {
    my ($session) = @_;
    my $list = join '', map {
        my ($product, $name, $text, $cents) = @$_;
        '<li>' . picture($product) . "<h2>$name</h2><p>$text</p>" . form($session, '/add', 'class="buy"')
            . '<b>' . euros($cents) . qq(</b><button name="product" value="$product">Add to cart</button></form></li>);
    } @PRODUCTS;
    return '<h1>Things that stay where you put them</h1><p class="lead">Heavy goods for people who have lost'
        . qq( enough already. So are their carts.</p><ul class="products">$list</ul>);
}

sub cart_page {
    my ($session) = @_;
    my ($rows, $sum) = ('', 0);
    for (cart($session)) {
        my ($product, $name, undef, $cents, $pieces) = @$_;
        $sum += $pieces * $cents;
        $rows .= '<tr><td>' . picture($product) . qq(</td><th scope="row">$name</th><td>$pieces &times; )
            . euros($cents) . '</td><td>' . euros($pieces * $cents) . '</td><td>' . form($session, '/remove')
            . qq(<button class="quiet" name="product" value="$product">Remove</button></form></td></tr>);
    }
    return '<h1>Your cart</h1>'
        . (!$rows ? '<p class="lead">It is empty. <a href="/">Find something that lasts.</a></p>'
        : qq(<table>$rows<tr class="total"><td></td><th scope="row">Total</th><td></td><td>) . euros($sum)
            . '</td><td></td></tr></table>'
            . (defined $session->{name} ? ''
            : '<p><a href="/login">Log in</a>: the cart comes with you, to a session with a new id.</p>'));
}

sub login {
    my ($session) = @_;
    return '<h1>Log in</h1><p class="lead">Any name will do; there is no password. Your session gets a new id,'
        . ' and the old one is worth nothing from then on.</p>' . form($session, '/log-in', 'class="card"')
        . '<label>Name <input name="name" required maxlength="40" autocomplete="username" autofocus></label>'
        . '<button>Log in</button></form>';
}

# The microseconds of begin, one change and commit of a session of 1,400 bytes, sorted.
sub measure {
    my $sessions = Sessile->shared($ENV{STORE});
    my ($id, $end, @times) = (Sessile::new_id(), time + 0.05);
    while (@times < 500 and (my $start = time) < $end) {
        my $session = $sessions->begin($id);
        $session->commit(@times . ' ' . 'x' x 1390);
        push @times, (time - $start) * 1e6;
    }
    $sessions->destroy($id);
    return sort { $a <=> $b } @times;
}

sub handler {
    my ($session) = @_;
    my @times = measure();
    my $at    = sub { sprintf '%.1f &micro;s', $times[int($#times * $_[0])] };
    my $store = $ENV{STORE} =~ s/:.*//r;
    my $data  = join ', ', map { "<code>$_</code>" } sort keys %$session;
    my $count = form($session, '/count', 'id="count"');
    my $counter  = $session->{count} // 0;
    my $counters = Sessile->shared($ENV{STORE})->counters;
    my $faults   = join '', map { "<dt><code>$_</code></dt><dd>$counters->{$_}</dd>" } sort keys %$counters;
    my $own      = %$session
        ? "You have a session, because there is something in it: $data. Open this page in a private window to see what"
            . ' a new visitor gets: no session and no cookie.'
        : 'You have no session and no cookie: nothing was put into it. Add something to your cart, and look again.';
    my ($median, $p99, $rounds) = ($at->(0.5), $at->(0.99), scalar @times);
    return <<"HTML";
<h1>Behind the counter</h1>
<p class="lead">The sessions of this shop are kept by <code>Plack::Session::Store::Sessile</code>, on the store
  <code>$store</code>.</p>
<section class="card"><h2>A session begins when there is something to keep</h2><p>$own</p></section>
<section class="card"><h2>Eight at once, and none is lost</h2>
  <p>Each request reads your counter, works for 20 ms, and stores the counter plus one. A session belongs to one
    request at a time, so all eight count; without a lock most would have stored the same number.</p>
  $count<button>Count 8 times at once</button> Your counter: <b id="counter">$counter</b></form>
  <p id="outcome" role="status"></p><script src="/count.js"></script></section>
<section class="card"><h2>What it costs</h2>
  <p>$rounds times in this request: <code>begin</code>, one change of a session of 1,400 bytes, <code>commit</code>.</p>
  <dl><dt>Median</dt><dd>$median</dd><dt>99 of 100 are faster than</dt><dd>$p99</dd></dl></section>
<section class="card"><h2>What could not be saved or locked</h2>
  <p>The counters of worker $$. In a shop that is well all are 0.</p><dl>$faults</dl></section>
HTML
}

my %BODIES = (products => \&products, cart => \&cart_page, login => \&login, handler => \&handler);

sub show {
    my ($request, $page, $status, $message) = @_;
    my $session = $request->env->{'psgix.session'};
    my $body = $page eq 'error'
        ? "<h1>$status</h1><p class=\"lead\">$message</p><p><a href=\"/\">Back to the shop</a></p>"
        : $BODIES{$page}->($session);
    my $pieces = 0;
    $pieces += $_->[-1] for cart($session);
    my $badge = $pieces ? qq( <b class="badge">$pieces</b>) : '';
    my $visitor = !defined $session->{name} ? '<a href="/login">Log in</a>'
        : form($session, '/log-out') . '<span>Hello, ' . escaped($session->{name})
            . '</span><button class="quiet">Log out</button></form>';
    my $id = substr $request->env->{'psgix.session.options'}{id} // '', 0, 6;
    my $footer = $status == 503 ? '<b>Your session is not at hand.</b>'
        : !%$session ? '<b>No session.</b> You have done nothing that must be remembered: no cookie was sent, and'
            . ' nothing was stored.'
        : "<b>Session $id&hellip;</b> opened by worker $$.";
    return <<"HTML";
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Staying Put</title>
<link rel="icon" href="/pictures.svg">
<link rel="stylesheet" href="/style.css">
<header><a class="brand" href="/">Staying Put</a><nav><a href="/">Shop</a><a href="/cart">Cart$badge</a>
  <a href="/handler">Behind the counter</a>$visitor</nav></header>
<main>
$body
</main>
<footer>$footer</footer>
HTML
}

1;
