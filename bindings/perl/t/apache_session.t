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
