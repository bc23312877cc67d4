# The plain interface: stores, sessions, errors.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use Sessile;

my @warnings;
$SIG{__WARN__} = sub { push @warnings, @_ };

my $sessions = Sessile->new(url(), lock_wait => 0.05);

sub url { return 'sessile:' . tempdir(CLEANUP => 1, DIR => -d '/dev/shm' ? '/dev/shm' : undef) . '/e' }

sub kind_of {
    my ($call) = @_;
    return eval { $call->(); 1 } ? 'none' : ref $@ ? $@->kind : "$@";
}

subtest 'a session is kept from one request to the next' => sub {
    my $id    = Sessile::new_id();
    my $first = $sessions->begin($id);
    is $first->payload, '', 'a new session is empty';
    is $first->commit("1 book\0\xff"), 'stored';
    is $sessions->peek($id), "1 book\0\xff", 'bytes stay bytes';
    is $sessions->begin($id)->touch, 'touched', 'what is read lives longer';
    is $sessions->peek('unknown'), undef;
};

subtest 'requests of one session take turns' => sub {
    my $id   = Sessile::new_id();
    my $held = $sessions->begin($id);
    is kind_of(sub { $sessions->begin($id) }), 'lock-timeout';
    my $seen = $sessions->read_only($id);
    is kind_of(sub { $seen->save('x') }), 'unsupported', 'who only reads changes nothing';
    undef $held;
    is kind_of(sub { $sessions->begin($id) }), 'none', 'a lock ends with its object';
};

subtest 'a log-out is final' => sub {
    my $id   = Sessile::new_id();
    $sessions->begin($id)->commit('user');
    my $late = $sessions->begin($id);
    $sessions->destroy($id);
    is $late->commit('back'), 'logged-out';
    is $sessions->peek($id), undef;
    is $sessions->counters->{destroyed_commits}, 1, 'and counted';
};

subtest 'a session saves twice, and gets another id' => sub {
    my ($old, $new) = (Sessile::new_id(), Sessile::new_id(40));
    my $session = $sessions->begin($old);
    is $session->save('one'), 'stored';
    is $session->save('two'), 'stored';
    $session->hold;
    is kind_of(sub { $sessions->begin($old) }), 'lock-timeout', 'it is held again';
    is $session->regenerate($new), $new;
    is $session->id, $new;
    is $session->commit('three'), 'stored';
    is $sessions->peek($new), 'three';
    is $sessions->read_only($old)->payload, 'two', 'late requests see what was before';
};

subtest 'what another request has saved in between is not lost' => sub {
    my $id      = Sessile::new_id();
    my $session = $sessions->begin($id);
    $session->save('one');
    my $other = $sessions->begin($id);
    is $other->commit('theirs'), 'stored';
    is kind_of(sub { $session->hold }), 'stale';
    is kind_of(sub { $sessions->begin($id) }), 'none', 'it is not held then';
    is kind_of(sub { $session->save('mine') }), 'stale';
    is $sessions->peek($id), 'theirs';
};

# It was stored as it had been read, over what it had saved.
subtest 'a touch after a save keeps what was saved' => sub {
    my $brief   = Sessile->new(url(), expires => 0.02);
    my $id      = Sessile::new_id();
    my $session = $brief->begin($id);
    $session->save('one');
    $session->hold;
    select undef, undef, undef, 0.005 while defined $brief->peek($id);
    is $session->touch, 'stored';
    is $brief->peek($id) // 'one', 'one', 'unless it has expired again';
};

# It said that the id is taken.
subtest 'a save that has failed can be tried again' => sub {
    my $small = Sessile->new(url() . '?payload_bytes_max=100');
    my $id    = Sessile::new_id();
    $small->begin($id)->commit('before');
    my $session = $small->begin($id);
    is kind_of(sub { $session->save('x' x 200) }), 'too-large';
    is kind_of(sub { $session->save('x' x 200) }), 'too-large';
    is $session->commit('after'), 'stored';
    is $small->peek($id), 'after';
};

# Perl code may run in the middle of a call, and let go of what the call works on.
subtest 'code of the application in a call' => sub {
    my $id = Sessile::new_id();
    my %holder;
    my $value = bless sub { Sessile::Session::close(\%holder); 'mine' }, 'Sessile::Test::Text';
    { package Sessile::Test::Text; use overload '""' => sub { $_[0]->() }, fallback => 1 }
    Sessile::Session::open(\%holder, $sessions, $id);
    like kind_of(sub { Sessile::Session::save(\%holder, $value) }), qr/no session is open/;
    Sessile::Session::open(\%holder, $sessions, $id);
    like kind_of(sub { Sessile::Session::regenerate(\%holder, $value) }), qr/no session is open/;
};

subtest 'a new id after a save' => sub {
    my ($old, $new) = (Sessile::new_id(), Sessile::new_id());
    my $session = $sessions->begin($old);
    $session->save('one');
    is $session->regenerate($new), $new;
    is $session->commit('two'), 'stored';
    is $sessions->peek($new), 'two';
};

subtest 'each failure has its kind' => sub {
    is kind_of(sub { Sessile->new('nonsense:/x') }), 'invalid-url';
    is kind_of(sub { Sessile->new(url(), colour => 1) }), 'invalid-argument';
    is kind_of(sub { Sessile->new(url(), expires => 0) }), 'invalid-argument';
    is kind_of(sub { $sessions->begin('../x') }), 'invalid-id';
    is kind_of(sub { $sessions->begin("\x{100}") }) =~ /Wide character/, 1, 'no bytes, no id';
    is kind_of(sub { $sessions->touch('unknown') }), 'gone';
    is kind_of(sub { Sessile->new('redis+unix:/nowhere')->begin('x') }), 'unreachable';
    my $small = Sessile->new(url() . '?payload_bytes_max=10');
    is kind_of(sub { $small->begin('x')->commit('x' x 11) }), 'too-large';
    eval { $sessions->begin('../x') };
    like "$@", qr/id/, 'an error is its message';
    unlike "$@", qr/\.\./, 'which has no id in it';
    like kind_of(sub { Sessile::Session::save({}, '') }), qr/no session is open/;
    like kind_of(sub { Sessile::peek({}, 'x') }), qr/no store is open/;
    like kind_of(sub { Sessile::peek(undef, 'x') }), qr/reference to a hash/;
};

subtest 'the kinds are those of the table' => sub {
    my ($number, $kind) = (0);
    plan skip_all => 'the table is in the checkout' if !$ENV{SESSILE_TOP};
    open my $table, '<', "$ENV{SESSILE_TOP}/crates/capi/ERRORS.md" or die $!;
    my @rows = map { /^\| `([a-z-]+)` \| `\w+` \((\d+)\).*->kind eq '([a-z-]+)'/ ? [$1, $2, $3] : () }
        <$table>;
    cmp_ok scalar @rows, '>', 15;
    is_deeply [map { Sessile::_kind($_->[1]) } @rows], [map { $_->[2] } @rows];
    is_deeply [map { $_->[0] } @rows], [map { $_->[2] } @rows];
    is Sessile::_kind(@rows + 1), undef, 'the table is complete';
};

subtest 'the sessions of one user' => sub {
    my ($here, $there, $other) = map { Sessile::new_id() } 1 .. 3;
    my $commit = sub {
        my ($id, $owner) = @_;
        my $session = $sessions->begin($id);
        $session->set_owner($owner);
        $session->commit('cart');
    };
    $commit->($_, "Zo\x{eb}")            for $here, $there;
    $commit->($other, "Zo\x{eb}");
    $commit->($other, undef);
    # The same text, as bytes and as characters.
    my $wide = "Zo\x{eb}\x{100}";
    chop $wide;
    is $sessions->revoke($wide, $here), 1, 'all but this one';
    is_deeply [map { $sessions->peek($_) } $here, $there, $other], ['cart', undef, 'cart'];
    is $sessions->revoke($wide), 1;
    is $sessions->peek($here), undef;
    is kind_of(sub { $sessions->revoke('') }), 'invalid-argument';
};

subtest 'expired sessions' => sub {
    my $brief = Sessile->new(url(), expires => 0.02);
    my $id    = Sessile::new_id();
    $brief->begin($id)->commit('x');
    select undef, undef, undef, 0.03 while defined $brief->peek($id);
    is $brief->begin($id)->payload, '';
    like $brief->collect(1), qr/\A\d+\z/;
};

subtest 'ids are random' => sub {
    my %seen = map { Sessile::new_id() => 1 } 1 .. 1000;
    is keys %seen, 1000;
    like Sessile::new_id(5), qr/\A[0-9a-f]{5}\z/;
    like kind_of(sub { Sessile::new_id($_) }), qr/digits/ for 0, 257;
};

is_deeply \@warnings, [], 'no warning says what an error has said';

done_testing;
