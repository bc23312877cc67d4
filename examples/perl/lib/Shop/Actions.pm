# The form actions. Each changes the session and returns the next page, or an answer.
package Shop::Actions;
use strict;
use warnings;
use Shop::Pages;
use Sessile;

use constant { PIECES_MAX => 99, NAME_BYTES_MAX => 80 };

# Whether the form came from this shop. A visitor with a session sends its token. Without a session
# another site could only log the visitor in as somebody else: the browser's Origin must match.
sub is_own_form {
    my ($request) = @_;
    my $token = $request->env->{'psgix.session'}{token};
    return ($request->param('token') // '') eq $token if defined $token;
    my ($origin, $host) = ($request->header('Origin') // '', $request->header('Host') // '');
    return $origin eq "http://$host" || $origin eq "https://$host";
}

sub post_add {
    my ($request) = @_;
    my $product = $request->param('product') // '';
    my $cart    = $request->env->{'psgix.session'}{cart} //= {};
    $cart->{$product} = ($cart->{$product} // 0) + 1
        if $Shop::Pages::PRODUCTS{$product} and ($cart->{$product} // 0) < PIECES_MAX;
    return '/';
}

sub post_remove {
    my ($request) = @_;
    delete $request->env->{'psgix.session'}{cart}{ $request->param('product') // '' };
    return '/cart';
}

# Without a password: authentication is not part of this example.
sub post_log_in {
    my ($request) = @_;
    my ($name) = ($request->param('name') // '') =~ /\A\s*(.*?)\s*\z/s;
    return '/login' if $name eq '' or length $name > NAME_BYTES_MAX;
    # The cart moves to a new id. The old one, which an attacker may have planted, ends at once.
    $request->env->{'psgix.session.options'}{change_id} = 1;
    @{ $request->env->{'psgix.session'} }{qw(token name)} = (Sessile::new_id(), $name);
    return '/';
}

# Final: a concurrent request does not bring the session back.
sub post_log_out {
    my ($request) = @_;
    $request->env->{'psgix.session.options'}{expire} = 1;
    return '/';
}

sub post_count {
    my ($request) = @_;
    my $session = $request->env->{'psgix.session'};
    my $count   = $session->{count} // 0;
    # Simulates work. Without the lock, concurrent requests would read the same number.
    select undef, undef, undef, 0.02;
    $session->{count} = $count + 1;
    return '/handler' if ($request->header('Accept') // '') !~ m{application/json};
    my $answer = qq({"count":$session->{count},"token":"$session->{token}","worker":$$});
    return [200, ['Content-Type' => 'application/json'], [$answer]];
}

1;
