# Times the loop of source C (bench/SOURCES.md): sessions are made and then opened once more, and in
# each ten values are read and ten written in turn.
#
#   perl loop.pl [--json] [ROUNDS] [SESSIONS]
#
# The rows are Apache::Session::File on a disk and on tmpfs, ours, Apache::Session over
# Cache::SharedMemoryCache in place of Apache::Session::SharedMem, which no distribution packages,
# with ten sessions as in the source and with a hundred, Cache::FastMmap by its own API, and floors: the same loop
# without a store, to see what Perl and its modules take whatever keeps the sessions. The rows of a
# round follow each other, and a row is the fastest of its rounds: other programs of the machine only
# make it slower. A row that has taken five seconds sits the other rounds out. Each value that is read
# is compared.
#
# Then four processes add one to a value of one session, again and again. Those that lock must lose
# nothing; of Apache::Session::File as its manual shows it the row tells how many were kept.
#
# With --json each row is a line: `row`, `op`, `us` of a session (of an addition) in each round, and
# how many were `checked`; or `row` with what is `missing`, or `wrong`.
use strict;
use warnings;
use File::Temp ();
use List::Util qw(max min);
use POSIX ();
use Storable ();
use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);

use constant { VALUES => 10, VALUE_BYTES => 150, PROCESSES => 4, ADDITIONS => 100, SECONDS_MAX => 5 };

# Keeps what Apache::Session gives to a store in a hash of this process.
package Floor::Store;
my %kept;
sub new { return bless {}, $_[0] }
sub insert { $kept{ $_[1]{data}{_session_id} } = $_[1]{serialized}; return }
sub update { $kept{ $_[1]{data}{_session_id} } = $_[1]{serialized}; return }
sub materialize { $_[1]{serialized} = $kept{ $_[1]{data}{_session_id} } // die 'no session'; return }
sub close { return }

# Apache::Session as it is, with a lock that does nothing, and this store.
package Floor::Session;
our @ISA = ('Apache::Session');

sub populate {
    my ($self) = @_;
    $self->{object_store} = $self->{args}{Store}->new;
    $self->{lock_manager} = Apache::Session::Lock::Null->new($self);
    $self->{generate}     = \&Apache::Session::Generate::MD5::generate;
    $self->{validate}     = \&Apache::Session::Generate::MD5::validate;
    $self->{serialize}    = \&Apache::Session::Serialize::Storable::serialize;
    $self->{unserialize}  = \&Apache::Session::Serialize::Storable::unserialize;
    return $self;
}

# All sessions are one frozen hash in shared memory.
package SharedMemory::Store;
our @ISA = ('Floor::Store');
my $cache;
sub new { $cache ||= Cache::SharedMemoryCache->new({ namespace => 'sessions' }); return bless {}, $_[0] }
sub insert { $cache->set($_[1]{data}{_session_id}, $_[1]{serialized}); return }
sub update { return insert(@_) }
sub materialize { $_[1]{serialized} = $cache->get($_[1]{data}{_session_id}) // die 'no session'; return }
sub clear { $cache->clear if $cache; return }

# The tied hash of ours, and nothing behind it.
package Floor::Tie;
our @ISA = ('Apache::Session::Sessile');
sub TIEHASH { return bless { data => $_[1], status => 0 }, $_[0] }
sub DESTROY { }

package main;

# The shared memory of that cache has one key for all programs of the machine; in a namespace of its
# own the kernel removes it at the end.
if (!$ENV{SESSILE_BENCH_IPC}) {
    $ENV{SESSILE_BENCH_IPC} = 'none';
    for my $way (['--ipc'], ['--ipc', '--user', '--map-root-user']) {
        next if system("unshare @$way true 2>/dev/null");
        $ENV{SESSILE_BENCH_IPC} = 'own';
        exec 'unshare', @$way, $^X, (map { "-I$_" } @INC), $0, @ARGV;
    }
}

my $as_json = @ARGV && $ARGV[0] eq '--json' && shift @ARGV;
my ($rounds, $sessions) = (@ARGV, (15, 1000)[@ARGV .. 1]);
my $place = File::Temp->newdir('perl-XXXXXX', DIR => $ENV{SESSILE_BENCH_DIR} // '/dev/shm');
my $disk  = File::Temp->newdir('perl-XXXXXX', DIR => $ENV{SESSILE_BENCH_DISK} // '/var/tmp');

# A row: a name, what opens the hash of a session (of a new one without an id), and what saves it and
# returns its id.
sub tied_row {
    my ($class, %arguments) = @_;
    (my $file = "$class.pm") =~ s{::}{/}g;
    require $file if !$class->can('TIEHASH');
    return (
        sub { my %session; tie %session, $class, $_[0], \%arguments; return \%session },
        sub { my $id = $_[0]{_session_id}; untie %{ $_[0] }; return $id },
    );
}

# One session is open at a time.
my ($last, $open, %hashes, %frozen) = (0);

# Ties the hash of another row.
sub tie_row {
    my ($begin, $end) = @_;
    my $data;
    return (
        sub { my %session; tie %session, 'Floor::Tie', $data = $begin->($_[0]); return \%session },
        sub { untie %{ $_[0] }; return $end->($data) },
    );
}

sub frozen_row {
    return (
        sub { $open = $_[0] // ++$last; return $_[0] ? Storable::thaw($frozen{$open}) : {} },
        sub { $frozen{$open} = Storable::nfreeze($_[0]); return $open },
    );
}

sub hash_row {
    return (sub { return $hashes{ $open = $_[0] // ++$last } //= {} }, sub { return $open });
}

sub plain_row {
    my ($thaw) = @_;
    my $store = Sessile->new("sessile:$place/plain" . ++$last);
    my $session;
    my $hash = sub { return length $_[0] ? Storable::thaw($_[0]) : {} };
    return (
        sub { $session = $store->begin($open = $_[0] // Sessile::new_id()); return $hash->($session->payload) },
        sub { $session->commit(Storable::nfreeze($_[0])); return $open },
    );
}

sub fast_mmap_row {
    my $cache = Cache::FastMmap->new(share_file => "$place/mmap", cache_size => '64m', init_file => 1);
    return (
        sub { $open = $_[0] // ++$last; return $_[0] ? $cache->get($open) // die 'no session' : {} },
        sub { $cache->set($open, $_[0]) or die 'no room'; return $open },
    );
}

# A row of one of these is missing without the module, and ours without their extension.
my %modules = (
    'Apache::Session::Sessile' => 'Sessile (make perl)',
    'Cache::SharedMemoryCache' => 'Cache::Cache (Debian package libcache-cache-perl)',
    'Cache::FastMmap'          => 'Cache::FastMmap (Debian package libcache-fastmmap-perl)',
);

sub lacks {
    my ($module) = @_;
    return 'a namespace of shared memory (unshare --ipc)'
        if $module =~ /SharedMemory/ && $ENV{SESSILE_BENCH_IPC} ne 'own';
    return eval "require $module; 1" ? undef : $modules{$module};
}

# Each row: its name, the module that it needs, its sessions, and what makes it.
sub rows {
    require Apache::Session;
    require "Apache/Session/$_.pm" for qw(File Lock/Null Generate/MD5 Serialize/Storable);
    my ($file, $ours) = ('Apache::Session::File', 'Apache::Session::Sessile');
    my $files = sub {
        my ($dir, @more) = @_;
        mkdir $dir;
        return [$file, Directory => $dir, LockDirectory => $dir, @more];
    };
    my @tied = (
        ["$file on a disk"       => undef, $files->("$disk/files")],
        ["$file on tmpfs"        => undef, $files->("$place/files")],
        ["$file on tmpfs, locked" => undef, $files->("$place/locked", Transaction => 1)],
        [$ours                   => $ours, [$ours, Url => "sessile:$place/tied"]],
        ["$ours, JSON" => $ours, [$ours, Url => "sessile:$place/json", Serialize => 'JSON']],
    );
    my $shared = 'Cache::SharedMemoryCache';
    return (
        (map { my ($name, $needs, $tied) = @$_;
            [$name, $needs, $sessions, sub { tied_row(@$tied) }, $tied] } @tied),
        ['Sessile, a plain hash, Storable' => $ours, $sessions, \&plain_row],
        (map { my $count = $_;
            ["$shared, $count sessions", $shared, $count,
                sub { tied_row('Floor::Session', Store => 'SharedMemory::Store') }] } 10, 100),
        ['Cache::FastMmap' => 'Cache::FastMmap', $sessions, \&fast_mmap_row],
        ['floor: Apache::Session without a store' => undef, $sessions,
            sub { tied_row('Floor::Session', Store => 'Floor::Store') }],
        ['floor: a tied hash and Storable'  => $ours, $sessions, sub { tie_row(frozen_row()) }],
        ['floor: a plain hash and Storable' => undef, $sessions, \&frozen_row],
        ['floor: a tied hash alone'         => $ours, $sessions, sub { tie_row(hash_row()) }],
        ['floor: a plain hash alone'        => undef, $sessions, \&hash_row],
    );
}

# Makes sessions, or opens those of the ids, and returns the ids and the time.
sub timed {
    my ($begin, $end, $ids, $values, $expected) = @_;
    my (@kept, @read);
    my $next = 0;
    my $then = clock_gettime(CLOCK_MONOTONIC);
    for my $id (@$ids) {
        my $session = $begin->($id);
        for my $name (1 .. VALUES) {
            push @read, $session->{$name};
            $session->{$name} = $values->[$next++];
        }
        push @kept, $end->($session);
    }
    my $took = clock_gettime(CLOCK_MONOTONIC) - $then;
    for my $number (0 .. $#read) {
        my ($read, $wanted) = ($read[$number], $expected && $expected->[$number]);
        die "a value is not what was written\n" if ($read // '') ne ($wanted // '');
    }
    return (\@kept, $took);
}

sub values_of {
    my ($round) = @_;
    return [map { my $text = "$round.$_."; $text . 'x' x (VALUE_BYTES - length $text) }
            1 .. max($sessions, 100) * VALUES];
}

# Processes add one to a value of one session. Returns how many additions are there, and the time.
sub raced {
    my ($begin, $end) = @_;
    my $add = sub {
        my $session = $begin->($_[0]);
        $session->{n}++;
        usleep(100);
        return $end->($session);
    };
    my $id   = $add->();
    my $then = clock_gettime(CLOCK_MONOTONIC);
    my @processes = map {
        my $process = fork // die "no process: $!\n";
        if (!$process) {
            my $done = eval { $add->($id) for 1 .. ADDITIONS; 1 };
            print STDERR $@ if !$done;
            POSIX::_exit($done ? 0 : 1);
        }
        $process;
    } 1 .. PROCESSES;
    my $failed = grep { waitpid $_, 0; $? } @processes;
    my $took = clock_gettime(CLOCK_MONOTONIC) - $then;
    my $session = $begin->($id);
    my $kept = $session->{n} - 1;
    $end->($session);
    return ($kept, $took, $failed);
}

sub race_line {
    my ($name, $all) = ($_[0], PROCESSES * ADDITIONS);
    my ($kept, $took, $failed) = raced(tied_row(@{ $_[1] }));
    my %line = (row => $name, op => "$all additions by four", us => [$took / $all * 1e6],
        checked => $kept);
    # Apache::Session::File locks from the beginning only with Transaction.
    my $locks = $name !~ /File/ || $name =~ /locked/;
    $line{wrong} = "$kept of $all additions of four processes are there"
        if $failed || $locks && $kept != $all;
    return \%line;
}

my (@lines, @rows);
for my $row (rows()) {
    my ($name, $needs, $count, $make, $tied) = @$row;
    my $lacks = $needs && lacks($needs);
    push @lines, map { { row => $name, op => $_, missing => $lacks } } $lacks ? qw(make reopen) : ();
    push @rows, [$name, $count, $tied, $make->()] if !$lacks;
}
my (%taken, %spent);
for my $round (1 .. $rounds) {
    my ($first, $second) = (values_of($round), values_of(-$round));
    for my $row (@rows) {
        my ($name, $count, undef, $begin, $end) = @$row;
        next if ($spent{$name} // 0) > SECONDS_MAX;
        # A plain hash without a store has no new sessions otherwise.
        %hashes = ();
        SharedMemory::Store->clear;
        my ($ids, $make) = timed($begin, $end, [(undef) x $count], $first);
        my (undef, $reopen) = timed($begin, $end, $ids, $second, $first);
        $spent{$name} += $make + $reopen;
        push @{ $taken{$name}{make} },   $make / $count * 1e6;
        push @{ $taken{$name}{reopen} }, $reopen / $count * 1e6;
    }
}
SharedMemory::Store->clear;
for my $row (@rows) {
    my ($name, $count, $tied) = @$row;
    push @lines, map { { row => $name, op => $_, us => $taken{$name}{$_}, sessions => $count,
        checked => @{ $taken{$name}{$_} } * $count } } qw(make reopen);
    push @lines, race_line($name, $tied) if $tied && $name !~ /JSON/;
}

if ($as_json) {
    require JSON::PP;
    my $json = JSON::PP->new->canonical;
    print $json->encode({ %$_, row => "perl $_->{row}" }), "\n" for @lines;
    exit;
}
my $file = $taken{'Apache::Session::File on tmpfs'};
my $file_us = min(@{ $file->{make} }) + min(@{ $file->{reopen} });
for my $line (grep { $_->{op} ne 'make' } @lines) {
    my ($name, $us) = @$line{qw(row us)};
    if (my $why = $line->{wrong} || $line->{missing} && "$line->{missing} is not installed") {
        printf "%-58s %s\n", $name, $why;
    } elsif ($line->{op} eq 'reopen') {
        my ($make, $reopen) = (min(@{ $taken{$name}{make} }), min(@$us));
        printf "%-58s %8.2f us to make %8.2f us to reopen %7.2f times as fast as files on tmpfs\n",
            $name, $make, $reopen, $file_us / ($make + $reopen);
    } else {
        printf "%-58s %8.2f us each of %s, %d kept\n", $name, $us->[0], $line->{op}, $line->{checked};
    }
}
exit !!grep { $_->{wrong} } @lines;
