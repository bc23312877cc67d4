# Times the loop of source C (docs/sources.md): sessions are made and then opened once more, and in
# each ten values are read and ten written in turn.
#
#   perl loop.pl [--json] [ROUNDS] [SESSIONS]
#
# The rows are Apache::Session::File on tmpfs, ours, and floors: the same loop without a store, to
# see what Perl and its modules take whatever keeps the sessions. All of them work in this process, so
# its processor time is what is measured. The rows of a round follow each other, and a row is the
# fastest of its rounds: other programs of the machine only make it slower.
# Each value that is read is compared. With --json each row is a line: `row`, `op`, `us` of a session
# in each round, and how many sessions were `checked`.
use strict;
use warnings;
use File::Temp ();
use List::Util qw(min);
use Storable ();
use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID);

use constant { VALUES => 10, VALUE_BYTES => 150 };

# Keeps what Apache::Session gives to a store in a hash of this process.
package Floor::Store;
my %kept;
sub new { return bless {}, $_[0] }
sub insert { $kept{ $_[1]{data}{_session_id} } = $_[1]{serialized}; return }
sub update { $kept{ $_[1]{data}{_session_id} } = $_[1]{serialized}; return }
sub materialize { $_[1]{serialized} = $kept{ $_[1]{data}{_session_id} } // die 'no session'; return }
sub close { return }

# Apache::Session as it is, with a store and a lock that do nothing.
package Floor::Session;
our @ISA = ('Apache::Session');

sub populate {
    my ($self) = @_;
    $self->{object_store} = Floor::Store->new;
    $self->{lock_manager} = Apache::Session::Lock::Null->new($self);
    $self->{generate}     = \&Apache::Session::Generate::MD5::generate;
    $self->{validate}     = \&Apache::Session::Generate::MD5::validate;
    $self->{serialize}    = \&Apache::Session::Serialize::Storable::serialize;
    $self->{unserialize}  = \&Apache::Session::Serialize::Storable::unserialize;
    return $self;
}

# The tied hash of ours, and nothing behind it.
package Floor::Tie;
our @ISA = ('Apache::Session::Sessile');
sub TIEHASH { return bless { data => $_[1], status => 0 }, $_[0] }
sub DESTROY { }

package main;

my $as_json = @ARGV && $ARGV[0] eq '--json' && shift @ARGV;
my ($rounds, $sessions) = (@ARGV, (15, 1000)[@ARGV .. 1]);
my $place = File::Temp->newdir('perl-XXXXXX', DIR => $ENV{SESSILE_BENCH_DIR} // '/dev/shm');

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

sub tie_row {
    my $data;
    return (
        sub {
            $open = $_[0] // ++$last;
            $data = $_[0] ? Storable::thaw($frozen{$open}) : {};
            my %session;
            tie %session, 'Floor::Tie', $data;
            return \%session;
        },
        sub { untie %{ $_[0] }; $frozen{$open} = Storable::nfreeze($data); return $open },
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

sub rows {
    my ($files, $locked) = map { mkdir "$place/$_"; "$place/$_" } qw(files locked);
    require Sessile;
    require Apache::Session;
    require "Apache/Session/$_.pm" for qw(Lock/Null Generate/MD5 Serialize/Storable);
    return (
        ['Apache::Session::File' => tied_row('Apache::Session::File',
            Directory => $files, LockDirectory => $files)],
        ['Apache::Session::File, locked' => tied_row('Apache::Session::File',
            Directory => $locked, LockDirectory => $locked, Transaction => 1)],
        ['Apache::Session::Sessile' => tied_row('Apache::Session::Sessile',
            Url => "sessile:$place/tied")],
        ['Apache::Session::Sessile, JSON' => tied_row('Apache::Session::Sessile',
            Url => "sessile:$place/json", Serialize => 'JSON')],
        ['Sessile, a plain hash, Storable' => plain_row()],
        ['floor: Apache::Session without a store' => tied_row('Floor::Session')],
        ['floor: a tied hash and Storable'        => tie_row()],
        ['floor: a plain hash and Storable'       => frozen_row()],
        ['floor: a plain hash alone'              => hash_row()],
    );
}

# Makes sessions, or opens those of the ids, and returns the ids and the time.
sub timed {
    my ($begin, $end, $ids, $values, $expected) = @_;
    my (@kept, @read);
    my $next = 0;
    my $then = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    for my $id (@$ids) {
        my $session = $begin->($id);
        for my $name (1 .. VALUES) {
            push @read, $session->{$name};
            $session->{$name} = $values->[$next++];
        }
        push @kept, $end->($session);
    }
    my $took = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $then;
    for my $number (0 .. $#read) {
        my ($read, $wanted) = ($read[$number], $expected && $expected->[$number]);
        die "a value is not what was written\n" if ($read // '') ne ($wanted // '');
    }
    return (\@kept, $took);
}

sub values_of {
    my ($round) = @_;
    return [map { my $text = "$round.$_."; $text . 'x' x (VALUE_BYTES - length $text) }
            1 .. $sessions * VALUES];
}

my @rows = rows();
my %taken;
for my $round (1 .. $rounds) {
    my ($first, $second) = (values_of($round), values_of(-$round));
    for my $row (@rows) {
        my ($name, $begin, $end) = @$row;
        # A plain hash without a store has no new sessions otherwise.
        %hashes = ();
        my ($ids, $make) = timed($begin, $end, [(undef) x $sessions], $first);
        my (undef, $reopen) = timed($begin, $end, $ids, $second, $first);
        push @{ $taken{$name}{make} },   $make / $sessions * 1e6;
        push @{ $taken{$name}{reopen} }, $reopen / $sessions * 1e6;
    }
}

if ($as_json) {
    for my $name (map { $_->[0] } @rows) {
        for my $op (qw(make reopen)) {
            my $us = join ',', map { sprintf '%.3f', $_ } @{ $taken{$name}{$op} };
            printf qq({"row":"perl %s","op":"%s","us":[%s],"checked":%d}\n), $name, $op, $us,
                $rounds * $sessions;
        }
    }
    exit;
}
my %fastest = map { my $ops = $taken{$_}; ($_ => { map { $_ => min(@{ $ops->{$_} }) } keys %$ops }) }
    keys %taken;
my ($file) = map { $_->{make} + $_->{reopen} } $fastest{'Apache::Session::File'};
for my $name (map { $_->[0] } @rows) {
    my ($make, $reopen) = @{ $fastest{$name} }{qw(make reopen)};
    printf "%-40s %7.2f us to make %7.2f us to reopen %6.2f times as fast as files\n", $name, $make,
        $reopen, $file / ($make + $reopen);
}
