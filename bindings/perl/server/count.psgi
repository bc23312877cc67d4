# Counts in a session: /count. STORE is the store URL. The store is opened before the workers are
# forked.
use strict;
use warnings;
use Plack::Builder;
use Plack::Session::Store::Sessile;

my $store = Plack::Session::Store::Sessile->new(url => $ENV{STORE}, lock_wait => 60);

builder {
    enable 'Session', store => $store;
    sub {
        my ($env) = @_;
        die "a defect of the application\n" if $env->{PATH_INFO} eq '/dies';
        my $count = ++$env->{'psgix.session'}{count};
        kill KILL => $$ if $env->{PATH_INFO} eq '/killed';
        return [200, ['Content-Type' => 'text/plain'], ["$count $$"]];
    };
};
