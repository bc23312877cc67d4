# Apache::Session::Sessile in place of Apache::Session::File, and under Apache::Session::Flex.
use strict;
use warnings;
use POSIX ();
use Test::More;
use File::Temp qw(tempdir);

BEGIN {
    plan skip_all => 'Apache::Session is not installed' if !eval { require Apache::Session };
}
use Apache::Session::Flex;
use Apache::Session::Sessile;

my $dir  = tempdir(CLEANUP => 1, DIR => -d '/dev/shm' ? '/dev/shm' : undef);
my %with = (Directory => "$dir/e", LockDirectory => $dir, Transaction => 1, LockWait => 10);
my %flex = (%with, Store => 'Sessile', Lock => 'Sessile', Generate => 'MD5', Serialize => 'Storable');
my @warnings;
$SIG{__WARN__} = sub { push @warnings, @_ };

for my $case (['Apache::Session::Sessile', \%with], ['Apache::Session::Flex', \%flex],
    ['Apache::Session::Sessile', { %with, Directory => "$dir/json", Serialize => 'JSON' }])
{
    my ($class, $args) = @$case;
    my $short = { %$args, LockWait => 0.05 };
    subtest "$class, " . ($args->{Serialize} // 'its own serialiser') => sub {
        my %session;
        tie %session, $class, undef, $args;
        my $id = $session{_session_id};
        like $id, qr/\A[0-9a-f]{32}\z/;
        isa_ok tied(%session), 'Apache::Session';
        $session{visits} = 1;
        $session{cart}   = { book => [1, 2] };
        ok !eval { tie my(%other), $class, $id, $short; 1 }, 'the session is held';
        is ref $@ && $@->kind, 'lock-timeout';
        untie %session;

        tie %session, $class, $id, $args;
        is $session{_session_id}, $id;
        is_deeply [sort keys %session], [qw(_session_id cart visits)];
        is_deeply $session{cart}, { book => [1, 2] };
        ok exists $session{visits} && !exists $session{other};
        delete $session{cart};
        tied(%session)->save;
        $session{visits}++;
        tied(%session)->save;
        untie %session;

        tie %session, $class, $id, $args;
        is $session{visits}, 2;
        ok !exists $session{cart};
        %session = (_session_id => $id, only => 1);
        untie %session;

        tie %session, $class, $id, $args;
        is_deeply { %session }, { _session_id => $id, only => 1 };
        tied(%session)->delete;
        $session{back} = 1;
        untie %session;
        ok !eval { tie %session, $class, $id, $args; 1 }, 'it is deleted';
        like $@, qr/^Object does not exist in the data store/;
        untie %session;

        ok !eval { tie %session, $class, '../etc/passwd', $args; 1 };
        like $@, qr/^Invalid session ID: /;
        ok !eval { tie %session, $class, 'f' x 32, $args; 1 };
        like $@, qr/^Object does not exist in the data store/;

        tie %session, $class, undef, { %$args, IDLength => 12 };
        is length $session{_session_id}, 12;
        untie %session;
    };

    subtest "$class: a session that was deleted stays deleted" => sub {
        tie my(%session), $class, undef, $args;
        my $id = $session{_session_id};
        untie %session;
        tie %session, $class, $id, $args;
        my $sessions = Apache::Session::Sessile::sessions($args);
        $sessions->destroy($id);
        $session{user} = 1;
        untie %session;
        ok !eval { tie %session, $class, $id, $args; 1 };
        like $@, qr/^Object does not exist in the data store/;
    };

    subtest "$class: a session that is only read lives longer" => sub {
        tie my(%session), $class, undef, $args;
        my $id = $session{_session_id};
        untie %session;
        my @calls;
        no warnings 'redefine';
        my $save = \&Sessile::Session::save;
        local *Sessile::Session::save = sub { push @calls, my $saved = $save->(@_); $saved };
        tie %session, $class, $id, $args;
        is $session{_session_id}, $id;
        untie %session;
        is_deeply \@calls, ['touched'];
    };

    subtest "$class: two processes lose nothing" => sub {
        tie my(%session), $class, undef, $args;
        my $id = $session{_session_id};
        $session{count} = 0;
        untie %session;
        my @children = map {
            my $child = fork // die $!;
            if (!$child) {
                for (1 .. 200) {
                    tie my(%own), $class, $id, $args;
                    $own{count}++;
                    untie %own;
                }
                POSIX::_exit(@warnings ? 1 : 0);
            }
            $child;
        } 1 .. 4;
        for my $child (@children) {
            waitpid $child, 0;
            is $?, 0;
        }
        tie %session, $class, $id, $args;
        is $session{count}, 800;
    };
}

subtest 'merge: requests run in parallel and both changes stay' => sub {
    my $args = { %with, Directory => "$dir/merge", Serialize => 'JSON', Concurrency => 'merge' };
    tie my(%session), 'Apache::Session::Sessile', undef, $args;
    my $id = $session{_session_id};
    $session{cart} = { book => 1 };
    untie %session;
    tie my(%one), 'Apache::Session::Sessile', $id, $args;
    tie my(%two), 'Apache::Session::Sessile', $id, $args;
    $one{cart} = { %{ $one{cart} }, pen => 1 };
    $two{seen} = 1;
    untie %one;
    untie %two;
    tie %session, 'Apache::Session::Sessile', $id, $args;
    is_deeply { %session }, { _session_id => $id, cart => { book => 1, pen => 1 }, seen => 1 };
    ok !eval { tie my(%bad), 'Apache::Session::Sessile', undef, { %$args, Serialize => 'Storable' } };
    like $@, qr/needs Serialize => 'JSON'/;
};

# A child lost its changes without a word.
subtest 'a child is told that it cannot save the session of its parent' => sub {
    my $args = { %with, Directory => "$dir/forked" };
    for my $changed (0, 1) {
        tie my(%session), 'Apache::Session::Sessile', undef, $args;
        my $id = $session{_session_id};
        $session{parent} = 1 if $changed;
        my %in_child = (
            nothing => sub { untie %session; @warnings == 0 },
            STORE   => sub { $session{child} = 1; untie %session; "@warnings" =~ /parent process/ },
            DELETE  => sub { delete $session{parent}; untie %session; @warnings == 1 },
            CLEAR   => sub { %session = (); untie %session; @warnings == 1 },
            save    => sub {
                $session{child} = 1;
                return !eval { tied(%session)->save; 1 } && $@->kind eq 'unsupported';
            },
        );
        for my $what (sort keys %in_child) {
            my $child = fork // die $!;
            if (!$child) {
                @warnings = ();
                POSIX::_exit($in_child{$what}->() ? 0 : 1);
            }
            waitpid $child, 0;
            is $?, 0, "$what, changed by the parent: $changed";
        }
        $session{parent} = 2;
        untie %session;
        tie %session, 'Apache::Session::Sessile', $id, $args;
        is_deeply { %session }, { _session_id => $id, parent => 2 };
    }
};

# The bytes that are stored, and the session of an id in the store of the arguments.
sub stored { my ($args, $id) = @_; return Apache::Session::Sessile::sessions($args)->peek($id) }
sub put { my ($args, $id, $bytes) = @_; Apache::Session::Sessile::sessions($args)->begin($id)->commit($bytes) }

# The status was that of a new session until it was read, and its end stored an empty hash.
subtest 'what cannot be read stays as it is, and its text is in no error' => sub {
    my %json = (%with, Directory => "$dir/foreign", Serialize => 'JSON');
    my %case = (JSON => ['no JSON: secret', '"secret"', '["secret"]', '[1]', ''],
        Storable => ['no Storable: secret', Storable::nfreeze(['secret']), Storable::nfreeze(\'secret')]);
    for my $name (sort keys %case) {
        my $args = { %json, Serialize => $name };
        for my $bytes (@{ $case{$name} }) {
            my $id = Sessile::new_id();
            put($args, $id, $bytes);
            ok !eval { tie my(%session), 'Apache::Session::Sessile', $id, $args; $session{x} = 1; 1 };
            like $@, qr/^Session could not be unserialized/;
            unlike $@, qr/secret/;
            is stored($args, $id), $bytes;
            ok !eval { tie my(%other), 'Apache::Session::Sessile', $id, $args; 1 };
            unlike $@, qr/holds the session/, 'nor is it locked';
        }
    }
    ok !eval { tie my(%session), 'Apache::Session::Sessile', "secret\n", \%json; 1 };
    unlike $@, qr/secret/;
    my $id = Sessile::new_id();
    put(\%json, $id, '{"user":"me"}');
    tie my(%session), 'Apache::Session::Sessile', $id, \%json;
    is_deeply { %session }, { _session_id => $id, user => 'me' }, 'JSON of another language';
};

# It lay in the payload: who had a copy of an engine could log in.
subtest 'what is stored does not contain the id' => sub {
    my %as_json = (%with, Directory => "$dir/json", Serialize => 'JSON');
    for my $args (\%with, \%as_json) {
        tie my(%session), 'Apache::Session::Sessile', undef, $args;
        my $id = $session{_session_id};
        $session{user} = 'me';
        tied(%session)->save;
        is $session{_session_id}, $id;
        unlike stored($args, $id), qr/$id/;
        untie %session;
        tie %session, 'Apache::Session::Sessile', $id, $args;
        is_deeply { %session }, { _session_id => $id, user => 'me' };
    }
};

# Flex gave the application no id, and so the visitor an empty cookie.
subtest 'Flex and Apache::Session::Sessile read the sessions of each other, with their ids' => sub {
    my @both = (['Apache::Session::Sessile', \%with], ['Apache::Session::Flex', \%flex]);
    for my $writer (@both) {
        tie my(%session), $writer->[0], undef, $writer->[1];
        my $id = $session{_session_id};
        $session{user} = 'me';
        untie %session;
        for my $reader (@both, @both) {
            tie %session, $reader->[0], $id, $reader->[1];
            is_deeply { %session }, { _session_id => $id, user => 'me' }, "$reader->[0]";
            untie %session;
        }
    }
    tie my(%session), 'Apache::Session::Flex', undef, \%flex;
    my $id = $session{_session_id};
    $session{user} = 'me';
    untie %session;
    like stored(\%with, $id), qr/$id/, 'Flex stores its id';
    tie %session, 'Apache::Session::Sessile', $id, \%with;
    untie %session;
    unlike stored(\%with, $id), qr/$id/, 'until the next save here';
};

# It was stored as an empty payload, which no serialiser reads.
subtest 'a session that expires while it is read is stored as it was' => sub {
    my $args = { %with, Directory => "$dir/brief", Expires => 0.02 };
    tie my(%session), 'Apache::Session::Sessile', undef, $args;
    my $id = $session{_session_id};
    $session{user} = 'me';
    untie %session;
    tie %session, 'Apache::Session::Sessile', $id, $args;
    my $bytes = stored($args, $id);
    select undef, undef, undef, 0.005 while defined stored($args, $id);
    untie %session;
    my $now = stored($args, $id);
    SKIP: {
        skip 'it has expired again', 1 if !defined $now;
        is $now, $bytes;
    }
};

# `delete` did nothing to a new session, and untie stored it.
subtest 'a new session that is deleted is never stored' => sub {
    tie my(%session), 'Apache::Session::Sessile', undef, \%with;
    my $id = $session{_session_id};
    $session{user} = 1;
    tied(%session)->delete;
    $session{user} = 2;
    tied(%session)->save;
    untie %session;
    is stored(\%with, $id), undef;
};

# The payload [1] was taken for a hash by C code.
subtest 'the methods of the tied hash check what they get' => sub {
    my $broken = bless { data => [1] }, 'Apache::Session::Sessile';
    is Apache::Session::Sessile::FETCH($broken, 'x'), undef;
    Apache::Session::Sessile::STORE($broken, x => 1);
    is_deeply $broken->{data}, [1];
    for my $self (undef, 1, [], \1) {
        is Apache::Session::Sessile::FETCH($self, 'x'), undef;
        Apache::Session::Sessile::STORE($self, x => 1);
    }
};

subtest 'a short id that is taken is left alone' => sub {
    my %short = (%with, Directory => "$dir/short", IDLength => 1);
    put(\%short, 'a', 'of another');
    my @ids = qw(a b);
    no warnings 'redefine';
    local *Sessile::new_id = sub { return @ids > 1 ? shift @ids : $ids[0] };
    tie my(%session), 'Apache::Session::Sessile', undef, \%short;
    is $session{_session_id}, 'b';
    untie %session;
    ok !eval { tie %session, 'Apache::Session::Sessile', undef, \%short; 1 };
    like $@, qr/^Object already exists in the data store/;
    is stored(\%short, 'a'), 'of another';
};

subtest 'save tells if another request has had the session in between' => sub {
    tie my(%session), 'Apache::Session::Sessile', undef, \%with;
    my $id = $session{_session_id};
    my $hold = \&Sessile::Session::hold;
    no warnings 'redefine';
    local *Sessile::Session::hold = sub {
        tie my(%other), 'Apache::Session::Sessile', $id, \%with;
        $other{theirs} = 1;
        untie %other;
        $hold->(@_);
    };
    $session{mine} = 1;
    ok !eval { tied(%session)->save; 1 };
    is ref $@ && $@->kind, 'stale';
    $session{lost} = 1;
    ok !eval { tied(%session)->save; 1 };
    is ref $@ && $@->kind, 'stale';
    my $told;
    local $SIG{__WARN__} = sub { $told = shift };
    untie %session;
    like $told, qr/nothing is saved/;
    tie %session, 'Apache::Session::Sessile', $id, \%with;
    is_deeply { %session }, { _session_id => $id, mine => 1, theirs => 1 };
};

subtest 'the owner is the value of a key' => sub {
    my $url  = "sessile:$dir/owners";
    my $args = { Url => $url, Owner => 'user', Serialize => 'JSON' };
    my %id;
    for my $user (17, 18) {
        tie my %session, 'Apache::Session::Sessile', undef, $args;
        $id{$user} = $session{_session_id};
        untie %session;
        tie %session, 'Apache::Session::Sessile', $id{$user}, $args;
        $session{user} = $user;
        untie %session;
    }
    my $sessions = Sessile->shared($url);
    is $sessions->peek($id{17}), '{"user":17}', 'a number stays one';
    is $sessions->revoke(17), 1, 'named at the log-in';
    is $sessions->peek($id{17}), undef;
    for my $nobody (undef, '') {
        tie my %session, 'Apache::Session::Sessile', $id{18}, $args;
        is $sessions->revoke($session{user}, $session{_session_id}), 0, 'but for this one';
        $session{user} = $nobody;
        untie %session;
        is $sessions->revoke(18), 0, 'and no longer after it';
        tie %session, 'Apache::Session::Sessile', $id{18}, $args;
        $session{user} = 18;
    }
    is $sessions->revoke(18), 1;
    my $elsewhere = { %$args, Url => 'files:' . tempdir(CLEANUP => 1) . '?php=1' };
    ok !eval { tie my %session, 'Apache::Session::Sessile', undef, $elsewhere; 1 };
    is ref $@ && $@->kind, 'unsupported', 'a store that keeps none';
};

# A store was found by the arguments alone.
subtest 'the store of $Url' => sub {
    my @ids = map {
        local $Apache::Session::Sessile::Url = "sessile:$dir/url$_";
        tie my(%session), 'Apache::Session::Sessile', undef, {};
        $session{_session_id};
    } 1, 2;
    for (1, 2) {
        local $Apache::Session::Sessile::Url = "sessile:$dir/url$_";
        ok defined Sessile->new($Apache::Session::Sessile::Url)->peek($ids[$_ - 1]);
    }
};

# It was first loaded by a worker, which may not read the directory of perl's modules.
subtest 'Storable is loaded with the modules' => sub {
    for my $module (qw(Apache::Session::Sessile Plack::Session::Store::Sessile)) {
        my @perl = ($^X, map { "-I$_" } @INC);
        next if system @perl, '-e', "exit !eval { require $module }";
        is system(@perl, "-M$module", '-e', 'exit !$INC{"Storable.pm"}'), 0, $module;
    }
};

subtest 'Flex has serialisers of its own' => sub {
    my $args = { %flex, Serialize => 'Base64' };
    tie my(%session), 'Apache::Session::Flex', undef, $args;
    my $id = $session{_session_id};
    $session{x} = 1;
    untie %session;
    tie %session, 'Apache::Session::Flex', $id, $args;
    is $session{x}, 1;
};

subtest 'a lock of Sessile in front of another store' => sub {
    require Apache::Session::Store::File;
    my $args = { %flex, Store => 'File', Directory => $dir, Url => "sessile:$dir/locks", LockWait => 0.05 };
    tie my(%session), 'Apache::Session::Flex', undef, $args;
    my $id = $session{_session_id};
    $session{x} = 1;
    ok !eval { tie my(%other), 'Apache::Session::Flex', $id, $args; 1 };
    like $@, qr/holds the session/;
    untie %session;
    tie %session, 'Apache::Session::Flex', $id, $args;
    is $session{x}, 1;
};

# The store read its own session as empty: Apache::Session's own test of a store does that.
subtest 'a store reads what it has stored, without Flex' => sub {
    my $store   = Apache::Session::Store::Sessile->new;
    my $session = { args => \%flex, data => { _session_id => 'abc' }, serialized => 'one' };
    for my $method (qw(insert update)) {
        $store->$method($session);
        $session->{serialized} = '';
        $store->materialize($session);
        is $session->{serialized}, $method eq 'insert' ? 'one' : 'two';
        $session->{serialized} = 'two';
    }
    $store->remove($session);
    ok !eval { $store->materialize($session); 1 };
};

is_deeply \@warnings, [], 'no warnings';

subtest 'what cannot be saved is told' => sub {
    tie my(%session), 'Apache::Session::Sessile', undef, { %with, Directory => "$dir/json", Serialize => 'JSON' };
    $session{code} = sub { };
    untie %session;
    like "@warnings", qr/nothing is saved/;
    ok !eval { tie my(%bad), 'Apache::Session::Sessile', undef, {}; 1 };
    like $@, qr/needs a Url/;
};

done_testing;
