# Apache::Session over Cache::SharedMemoryCache: a stand-in for Apache::Session::SharedMem, which no distribution packages. That
# one keeps its sessions in IPC::Cache, this one in the module that its author wrote after it; both keep one frozen hash of
# everything in shared memory of IPC::ShareLite. Like the original it locks no session. The cache object lives as long as
# the process, because to make one reads everything once.
package Keeper::SharedMemory::Store;
use strict;
use warnings;

my $cache;

sub new {
    my ($class) = @_;
    $cache ||= Cache::SharedMemoryCache->new({ namespace => 'sessions' });
    return bless {}, $class;
}

sub insert {
    my ($self, $session) = @_;
    $cache->set($session->{data}{_session_id}, $session->{serialized});
}

sub update {
    my ($self, $session) = @_;
    $cache->set($session->{data}{_session_id}, $session->{serialized});
}

sub materialize {
    my ($self, $session) = @_;
    $session->{serialized} = $cache->get($session->{data}{_session_id});
    die "the session is not in the cache\n" if !defined $session->{serialized};
}

sub remove {
    my ($self, $session) = @_;
    $cache->remove($session->{data}{_session_id});
}

package Keeper::SharedMemory::Session;
our @ISA = ('Apache::Session');

sub populate {
    my ($self) = @_;
    $self->{object_store} = Keeper::SharedMemory::Store->new;
    $self->{lock_manager} = Apache::Session::Lock::Null->new;
    $self->{generate}     = \&Apache::Session::Generate::MD5::generate;
    $self->{validate}     = \&Apache::Session::Generate::MD5::validate;
    $self->{serialize}    = \&Apache::Session::Serialize::Storable::serialize;
    $self->{unserialize}  = \&Apache::Session::Serialize::Storable::unserialize;
    return $self;
}

package Keeper::SharedMemory;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
our @ISA = ('Keeper::ApacheSession');

sub new {
    my ($class, $settings) = @_;
    require Cache::SharedMemoryCache;
    require Apache::Session;
    require Apache::Session::Lock::Null;
    require Apache::Session::Generate::MD5;
    require Apache::Session::Serialize::Storable;
    return $class->SUPER::new({ %$settings, session => 'Keeper::SharedMemory::Session' });
}

sub clear {
    $cache->clear if $cache;
}

# How often the whole cache is turned into a hash and back while sessions are opened and saved, how large it is, and how long
# that takes, and the shared memory: each call attaches all segments, copies them, and detaches them.
sub dissect {
    my ($self, $open) = @_;
    my %found = map { $_ => 0 } qw(thaws freezes bytes serialising_ns copying_ns);
    my $timed = sub {
        my ($part, $count, $call) = @_;
        return sub {
            my $then   = clock_gettime(CLOCK_MONOTONIC);
            my $result = $call->(@_);
            $found{$part} += 1e9 * (clock_gettime(CLOCK_MONOTONIC) - $then);
            $found{$count}++ if $count;
            $found{bytes} = length $result if $count && $count eq 'freezes';
            return $result;
        };
    };
    no warnings qw(redefine once);
    local *Cache::SharedMemoryBackend::Thaw_Data =
        $timed->('serialising_ns', 'thaws', \&Cache::SharedMemoryBackend::Thaw_Data);
    local *Cache::SharedMemoryBackend::Freeze_Data =
        $timed->('serialising_ns', 'freezes', \&Cache::SharedMemoryBackend::Freeze_Data);
    local *IPC::ShareLite::new_share     = $timed->('copying_ns', undef, \&IPC::ShareLite::new_share);
    local *IPC::ShareLite::read_share    = $timed->('copying_ns', undef, \&IPC::ShareLite::read_share);
    local *IPC::ShareLite::write_share   = $timed->('copying_ns', undef, \&IPC::ShareLite::write_share);
    local *IPC::ShareLite::destroy_share = $timed->('copying_ns', undef, \&IPC::ShareLite::destroy_share);
    my $then = clock_gettime(CLOCK_MONOTONIC);
    $open->();
    $found{all_ns} = 1e9 * (clock_gettime(CLOCK_MONOTONIC) - $then);
    return %found;
}

1;
