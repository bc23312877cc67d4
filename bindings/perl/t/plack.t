# Plack::Session::Store::Sessile behind Plack::Middleware::Session.
use strict;
use warnings;
use POSIX ();
use Test::More;
use File::Temp qw(tempdir);

BEGIN {
    plan skip_all => 'Plack::Middleware::Session is not installed'
        if !eval { require Plack::Test; require Plack::Middleware::Session; require HTTP::Cookies };
}
use HTTP::Request::Common qw(GET);
use Plack::Builder;
use Plack::Session::Store::Sessile;
use Plack::Test;

my $dir = tempdir(CLEANUP => 1, DIR => -d '/dev/shm' ? '/dev/shm' : undef);
my @warnings;
$SIG{__WARN__} = sub { push @warnings, @_ };

sub store { return Plack::Session::Store::Sessile->new(url => "sessile:$dir/e", lock_wait => 0.05, @_) }

sub in_session {
    my ($store, $app) = @_;
    return Plack::Test->create(builder { enable 'Session', store => $store; $app });
}

# The page `path` does what the code of that name says; the answer is its result.
sub shop {
    my ($store, %pages) = @_;
    return in_session($store, sub {
        my ($env) = @_;
        my $page = $pages{ substr $env->{PATH_INFO}, 1 } // die 'no page';
        return [200, ['Content-Type' => 'text/plain'], [$page->($env->{'psgix.session'}, $env) // '']];
    });
}

sub visitor {
    my ($shop) = @_;
    my $jar = HTTP::Cookies->new;
    return sub {
        my ($page) = @_;
        my $request = GET("http://localhost/$page");
        $jar->add_cookie_header($request);
        my $response = $shop->request($request);
        $response->request($request);
        $jar->extract_cookies($response);
        return $response->content;
    };
}

my %pages = (
    count  => sub { return ++$_[0]{count} },
    show   => sub { return $_[0]{count} // 'none' },
    id     => sub { return $_[1]{'psgix.session.options'}{id} },
    expire => sub { $_[1]{'psgix.session.options'}{expire} = 1; return },
    change => sub { $_[1]{'psgix.session.options'}{change_id} = 1; $_[0]{user} = 'me'; return },
    other  => sub { $_[1]{'psgix.session'} = { count => 40 }; return },
    read   => sub { $_[1]{'psgix.session.options'}{no_store} = 1; $_[0]{count} = 99; return },
    late   => sub { $_[1]{'psgix.session.options'}{late_store} = 1; return ++$_[0]{count} },
    dies   => sub { $_[0]{count} = 99; die "a defect of the shop\n" },
);

for my $serializer (qw(Storable JSON)) {
    subtest "visits, $serializer" => sub {
        my $store = store($serializer eq 'JSON' ? (serializer => 'JSON', url => "sessile:$dir/json") : ());
        my $shop  = shop($store, %pages);
        my $visit = visitor($shop);
        is $visit->('count'), $_ for 1 .. 3;
        is visitor($shop)->('show'), 'none', 'another visitor';
        my $id = $visit->('id');
        $visit->('read');
        is $visit->('show'), 3, 'no_store';
        $visit->('other');
        is $visit->('count'), 41, 'another hash';
        is $visit->('late'), 42, 'late_store';
        my $died = eval { $visit->('dies'); 1 };
        is $visit->('show'), 42, 'a request that dies saves nothing, and gives its lock back';
        $visit->('change');
        isnt $visit->('id'), $id, 'change_id';
        is $visit->('show'), 42;
        ok !$store->fetch($id), 'the old id shows nothing';
        $visit->('expire');
        is $visit->('show'), 'none', 'expire';
    };
}

subtest 'a request holds its session from fetch to store' => sub {
    my $store = store();
    my $id    = 'a' x 40;
    ok !$store->fetch($id);
    $store->store($id, { count => 1 });
    my $held = $store->fetch($id);
    is_deeply $held, { count => 1 };
    ok !eval { $store->fetch($id); 1 };
    is $@->kind, 'lock-timeout';
    undef $held;
    $held = $store->fetch($id);
    ok $held, 'the lock goes with the hash';
    $held->{count}++;
    $store->store($id, $held);
    is_deeply $store->fetch($id), { count => 2 };
    $held->{count}++;
    $store->store($id, $held);
    is_deeply $store->fetch($id), { count => 3 }, 'it is stored once more';
    my $other = $store->fetch($id);
    $other->{theirs} = 1;
    $store->store($id, $other);
    $held->{count}++;
    ok !eval { $store->store($id, $held); 1 };
    is $@->kind, 'stale', 'but not over what another request has stored';
    is_deeply $store->fetch($id), { count => 3, theirs => 1 };
    my $late = $store->fetch($id);
    $store->remove($id);
    $store->store($id, $late);
    ok !$store->fetch($id), 'a log-out is final';
};

# The hash was opened anew then, and saved over whatever was there.
subtest 'another hash in a response that comes later' => sub {
    my $store = store();
    my $id    = 'e' x 40;
    my $app = sub {
        my ($between) = @_;
        my $env = {};
        my $late = Plack::Middleware::Session->new(
            app   => sub { $_[0]{'psgix.session'} = { user => 'me' }; return sub { $_[0]->([200, [], []]) } },
            store => $store,
        )->to_app->({ HTTP_COOKIE => "plack_session=$id" });
        $between->();
        return eval { $late->(sub { }); 1 } ? 'none' : ref $@ ? $@->kind : $@;
    };
    $store->store($id, { count => 1 });
    my $theirs = sub { my $held = $store->fetch($id); $held->{count}++; $store->store($id, $held) };
    is $app->($theirs), 'exists';
    is_deeply $store->fetch($id), { count => 2 };
    is $app->(sub { $store->remove($id) }), 'none';
    ok !$store->fetch($id), 'a log-out is final';
};

subtest 'a payload that is no session' => sub {
    for my $store (store(), store(serializer => 'JSON')) {
        my $id = Sessile::new_id(40);
        $store->{sessions}->begin($id)->commit('"secret"');
        ok !eval { $store->fetch($id); 1 };
        is ref $@ && $@->kind, 'corrupt';
        unlike "$@", qr/secret/;
        is $store->{sessions}->peek($id), '"secret"';
        is $store->{sessions}->begin($id)->payload, '"secret"', 'nor is it locked';
    }
};

subtest 'merge: two hashes of one id in one process' => sub {
    my $store = store(url => "sessile:$dir/two", serializer => 'JSON', concurrency => 'merge');
    my $id    = 'f' x 40;
    $store->store($id, { n => 1 });
    my ($one, $two) = map { $store->fetch($id) } 1 .. 2;
    ok !eval { $store->store($id, { n => 2 }); 1 };
    is $@->kind, 'exists', 'another hash may belong to either';
    undef $two;
    $store->store($id, { n => 2, more => 1 });
    is_deeply $store->fetch($id), { n => 2, more => 1 };
};

# A read was taken for a change of each value that another language writes in another way.
subtest 'merge: other JSON of the same session is no change' => sub {
    my $store = store(url => "sessile:$dir/other", serializer => 'JSON', concurrency => 'merge');
    my ($id, $bytes) = ('0' x 40, '{ "b": "\u00e9", "a": [1, 2] }');
    $store->{sessions}->begin($id)->commit($bytes);
    my ($one, $two) = map { $store->fetch($id) } 1 .. 2;
    $two->{b} = 'e';
    $store->store($id, $_) for $two, $one;
    is_deeply $store->fetch($id), { a => [1, 2], b => 'e' };
};

subtest 'merge: requests run in parallel' => sub {
    my $store = store(url => "sessile:$dir/merge", serializer => 'JSON', concurrency => 'merge');
    my $id    = 'b' x 40;
    $store->store($id, { cart => { pen => 1 } });
    my ($one, $two) = map { $store->fetch($id) } 1 .. 2;
    $one->{cart}{book} = 1;
    $two->{user}       = 'me';
    $store->store($id, $_) for $one, $two;
    is_deeply $store->fetch($id), { cart => { pen => 1, book => 1 }, user => 'me' };
};

subtest 'the owner is the value of a key' => sub {
    my $store = store(owner => 'user');
    my @ids = map { Sessile::new_id() } 1 .. 2;
    $store->store($ids[0], { user => 17 });
    $store->store($ids[1], { cart => 1 });
    my $session = $store->fetch($ids[1]);
    $session->{user} = 17;
    $store->store($ids[1], $session);
    undef $session;
    is $store->{sessions}->revoke(17, $ids[0]), 1;
    is $store->fetch($ids[1]), undef;
    $session = $store->fetch($ids[0]);
    delete $session->{user};
    $store->store($ids[0], $session);
    is $store->{sessions}->revoke(17), 0, 'nobody is logged in any more';
};

subtest 'what has not changed is not written' => sub {
    for my $store (store(), store(url => "sessile:$dir/json", serializer => 'JSON')) {
        my $id = 'c' x 40;
        $store->store($id, { map { $_ => [1 .. 3] } 'a' .. 'p' });
        my $session = $store->fetch($id);
        my @calls;
        no warnings 'redefine';
        my $save = \&Sessile::Session::save;
        local *Sessile::Session::save = sub { push @calls, my $saved = $save->(@_); $saved };
        $store->store($id, $session);
        is_deeply \@calls, ['touched'];
    }
};

subtest '8 processes make 1,000 requests each on one session' => sub {
    my $store = store(lock_wait => 60);
    my $shop  = shop($store, %pages);
    my $id    = 'd' x 40;
    $store->store($id, { count => 0 });
    my $requests = $ENV{SESSILE_REQUESTS} // 1000;
    my @children = map {
        my $child = fork // die $!;
        if (!$child) {
            for (1 .. $requests) {
                my $request = GET('http://localhost/count', Cookie => "plack_session=$id");
                POSIX::_exit(1) if $shop->request($request)->code != 200;
            }
            POSIX::_exit(@warnings ? 2 : 0);
        }
        $child;
    } 1 .. 8;
    for my $child (@children) {
        waitpid $child, 0;
        is $?, 0;
    }
    is $store->fetch($id)->{count}, 8 * $requests;
};

# Its change was lost without a word.
subtest 'a child is told that it cannot store the session of its parent' => sub {
    my ($store, $id) = (store(), 'f' x 40);
    $store->store($id, { count => 0 });
    my $session = $store->fetch($id);
    for my $count (0, 1) {
        my $child = fork // die $!;
        if (!$child) {
            $session->{count} = $count;
            my $refused = eval { $store->store($id, $session); 1 } ? '' : $@->kind;
            POSIX::_exit($refused eq ($count ? 'unsupported' : '') ? 0 : 1);
        }
        waitpid $child, 0;
        is $?, 0;
    }
    $session->{count} = 2;
    $store->store($id, $session);
    is $store->fetch($id)->{count}, 2;
};

is_deeply \@warnings, [], 'no warnings';
ok !eval { store(concurrency => 'merge', serializer => 'Storable'); 1 };
like $@, qr/needs the serializer JSON/;
ok !eval { Plack::Session::Store::Sessile->new; 1 };

done_testing;
