# Every page of the shop: the middleware opens the session, an action changes it, a page shows it, and
# the middleware stores it before the answer goes out.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use lib dirname(abs_path(__FILE__)) . '/lib';
use Plack::Builder;
use Plack::Request;
use Plack::Session::Store::Sessile;
use Shop::Actions;
use Shop::Cookie;
use Shop::Pages;

my $here = dirname(abs_path(__FILE__));
my %PAGES = ('/' => 'products', '/cart' => 'cart', '/login' => 'login', '/handler' => 'handler');
my $sessions = Plack::Session::Store::Sessile->new(url => $ENV{STORE});

sub page {
    my ($request, $status, $page, $message) = @_;
    my $html = Shop::Pages::show($request, $page, $status, $message);
    return [$status, ['Content-Type' => 'text/html; charset=utf-8'], [$html]];
}

sub answer {
    my ($request) = @_;
    my $session = $request->env->{'psgix.session'};
    my $path    = $request->path_info;
    my $action  = $request->method eq 'POST' ? Shop::Actions->can("post_$path" =~ s{[^a-z]+}{_}gr) : undef;
    if ($action) {
        return page($request, 403, 'error',
            'This form did not come from this shop, or it is older than your session. Please go back and try again.')
            if !Shop::Actions::is_own_form($request);
        # The action stores something, so a session exists from here on and its forms carry a token.
        $session->{token} //= Sessile::new_id();
        my $next = $action->($request);
        return $next if ref $next;
        return [303, [Location => $next], []];
    }
    return page($request, 404, 'error', 'There is no such page.') if !$PAGES{$path};
    return page($request, 200, $PAGES{$path});
}

builder {
    enable 'Static', path => qr{^/(?:style\.css|count\.js|pictures\.svg)$}, root => "$here/../php/public";
    # A store that does not answer: nothing is lost, and the visitor is told so.
    enable sub {
        my ($app) = @_;
        return sub {
            my ($env) = @_;
            my $answer = eval { $app->($env) };
            return $answer if $answer;
            warn $@;
            $env->{'psgix.session'} = {};
            return page(Plack::Request->new($env), 503, 'error',
                'The store of the sessions does not answer. Please try again in a moment.');
        };
    };
    enable 'Session', store => $sessions, state => Shop::Cookie->new(
        session_key => 'shop', httponly => 1, samesite => 'Lax');
    sub {
        my ($env) = @_;
        my $answer = answer(Plack::Request->new($env));
        # A visitor who has left nothing gets no session and no cookie.
        $env->{'psgix.session.options'}{no_store} = 1 if !%{ $env->{'psgix.session'} };
        push @{ $answer->[1] },
            'Content-Security-Policy' => "default-src 'self'; form-action 'self'; frame-ancestors 'none'";
        return $answer;
    };
};
