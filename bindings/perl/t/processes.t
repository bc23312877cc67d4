# Forks, threads and the end of a process.
use strict;
use warnings;
use Config;
use POSIX ();
use Test::More;
use File::Temp qw(tempdir);
use Sessile;

my $url      = 'sessile:' . tempdir(CLEANUP => 1, DIR => -d '/dev/shm' ? '/dev/shm' : undef) . '/e';
my $sessions = Sessile->new($url, lock_wait => 10);
my $short    = Sessile->new($url, lock_wait => 0);

sub in_child {
    my ($run) = @_;
    my $child = fork // die "no process: $!";
    if (!$child) {
        my $ok = eval { $run->(); 1 };
        warn $@ if !$ok;
        # As a program ends that has nothing to say in it: objects go in any order.
        Test::More->builder->no_ending(1);
        exit($ok ? 0 : 1);
    }
    return $child;
}

sub ends_well {
    my ($child, $what) = @_;
    waitpid $child, 0;
    return is $?, 0, $what;
}

# Its answer was that there is nothing to save.
sub refused {
    my ($save) = @_;
    die "saved\n" if eval { $save->(); 1 };
    die $@ if !ref $@ or $@->kind ne 'unsupported';
    return;
}

subtest 'processes count on one session, on a store that was opened before they were' => sub {
    my $id = Sessile::new_id();
    my $count = sub {
        for (1 .. 500) {
            my $session = $sessions->begin($id);
            $session->commit(($session->payload || 0) + 1);
        }
    };
    ends_well($_, 'a process') for map { in_child($count) } 1 .. 4;
    is $sessions->peek($id), 2000;
};

subtest 'a child does not end the session of its parent' => sub {
    my $id   = Sessile::new_id();
    my $held = $sessions->begin($id);
    ends_well(in_child(sub {
        refused(sub { $held->$_('of the child') }) for qw(save commit save);
        undef $held;
    }), 'undef');
    ends_well(in_child(sub { }), 'the end');
    ok !eval { $short->begin($id); 1 }, 'it is still held';
    is $held->commit('of the parent'), 'stored';
    is $sessions->peek($id), 'of the parent';
};

subtest 'a child does not save what its parent has saved' => sub {
    my $id   = Sessile::new_id();
    my $held = $sessions->begin($id);
    $held->save('of the parent');
    ends_well(in_child(sub {
        refused(sub { $held->save('of the child') });
        die "no session of its own\n" if $sessions->begin('own')->commit('x') ne 'stored';
    }), 'a child');
    is $held->save('once more'), 'stored';
    is $sessions->peek($id), 'once more';
};

subtest 'a child that has changed nothing is silent' => sub {
    my $id = Sessile::new_id();
    $sessions->begin($id)->commit('of the parent');
    my $held = $sessions->begin($id);
    ends_well(in_child(sub { $held->touch eq 'nothing' or die "saved\n" }), 'a child');
    is $sessions->peek($id), 'of the parent';
};

subtest 'a killed process gives its session back' => sub {
    my $id = Sessile::new_id();
    pipe my $from, my $to or die $!;
    my $child = in_child(sub {
        my $held = $sessions->begin($id);
        syswrite $to, 'x';
        sleep 60;
    });
    sysread $from, my $held, 1;
    ok !eval { $short->begin($id); 1 }, 'it holds the session';
    kill KILL => $child;
    waitpid $child, 0;
    ok eval { $short->begin($id); 1 }, 'which is free at once';
};

subtest 'a program ends with everything open' => sub {
    my $id      = Sessile::new_id();
    my $program = <<'PROGRAM';
        use Sessile;
        our $first = Sessile->new($ARGV[0]);
        our $held = $first->begin($ARGV[1]);
        our $again = { store => $first, held => Sessile->new($ARGV[0])->begin('other') };
        $again->{itself} = $again;
PROGRAM
    my @run = ($^X, (map { "-I$_" } @INC), '-e', $program, $url, $id);
    is system(@run), 0;
    ok eval { $short->begin($id); $short->begin('other'); 1 }, 'and leaves nothing locked';
};

subtest 'threads' => sub {
    plan skip_all => 'this perl has none' if !$Config{useithreads};
    require threads;
    my $id   = Sessile::new_id();
    my $held = $sessions->begin('held');
    my @counts = map {
        threads->create(sub {
            eval { $held->save('x') };
            my $why = "$@";
            for (1 .. 200) {
                my $session = $sessions->begin($id);
                $session->commit(($session->payload || 0) + 1);
            }
            return $why;
        });
    } 1 .. 4;
    like $_->join, qr/no session is open/, 'a thread has no session of another' for @counts;
    is $sessions->peek($id), 800, 'and uses its stores';
    is $held->commit('kept'), 'stored', 'and did not end it';
};

done_testing;
