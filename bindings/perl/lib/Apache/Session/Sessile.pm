package Apache::Session::Sessile;
use strict;
use warnings;
use Apache::Session;
# Here: a worker of a server may have no access to its directory any more.
use Storable ();
use Sessile;

our $VERSION = $Sessile::VERSION;
our @ISA     = ('Apache::Session');

# The bits of Apache::Session's status. Above them is the process that has opened the session, or
# changed it last: a child that has changed nothing has nothing to save.
use constant { NEW => 1, MODIFIED => 2, DELETED => 4, SYNCED => 8 };

# The store of a tie without a Url and a Directory, as in the store of Apache::Session::File.
our $Url;

my (%sessions, %opened);

# The store that the arguments of a tie name.
sub sessions {
    my ($args) = @_;
    no warnings 'uninitialized';
    my $key = join "\0", $Url, @$args{qw(Url Directory Expires LockWait Concurrency Conflict)};
    return $sessions{$key} //= _open_store($args);
}

sub _open_store {
    my ($args) = @_;
    my ($concurrency, $conflict) = ($args->{Concurrency} // 'exclusive', $args->{Conflict} // 'last');
    die "Concurrency is exclusive or merge\n" if $concurrency !~ /\A(?:exclusive|merge)\z/;
    die "Conflict is last or fail\n"          if $conflict !~ /\A(?:last|fail)\z/;
    my $url = $args->{Url} // ($args->{Directory} ? "sessile:$args->{Directory}" : $Url)
        // die "Apache::Session::Sessile needs a Url, such as sessile:/var/lib/sessile\n";
    return Sessile->shared(
        $url,
        merge            => $concurrency eq 'merge',
        fail_on_conflict => $conflict eq 'fail',
        (defined $args->{Expires}  ? (expires   => $args->{Expires})  : ()),
        (defined $args->{LockWait} ? (lock_wait => $args->{LockWait}) : ()),
    );
}

# The store, and the subroutines that make bytes of a hash and a hash of bytes.
sub opened {
    my ($args) = @_;
    no warnings 'uninitialized';
    my $key = join "\0", $Url,
        @$args{qw(Serialize Url Directory Expires LockWait Concurrency Conflict Owner)};
    return $opened{$key} //= do {
        use warnings;
        my $name = $args->{Serialize} // 'Storable';
        die "Concurrency => 'merge' needs Serialize => 'JSON': Storable's bytes cannot be merged\n"
            if ($args->{Concurrency} // '') eq 'merge' and $name ne 'JSON';
        sessions($args)->check_owners if defined $args->{Owner};
        [sessions($args), serialiser($name)];
    };
}

sub serialiser {
    my ($name) = @_;
    return (\&Storable::nfreeze, Sessile::decoder(\&Storable::thaw)) if $name eq 'Storable';
    die "Serialize is Storable or JSON\n" if $name ne 'JSON';
    return Sessile::json();
}

# Nothing of Apache::Session's own life of a session is here, and few calls: with a store in memory
# each counts (`make perl-bench`).
sub TIEHASH {
    my ($class, $given, $args) = @_;
    my $opened = opened($args //= {});
    my $self = bless { args => $args, opened => $opened, data => undef, status => 0 }, $class;
    return $self->_make if !$given;
    my ($id) = $given =~ /\A([a-fA-F0-9]+)\z/ or die 'Invalid session ID: it is not hexadecimal';
    my $found = Sessile::Session::open($self, $opened->[0], $id, 1, 1)
        // die 'Object does not exist in the data store';
    my $data = $opened->[2]->($found);
    if (!$data) {
        # What is stored stays, whatever it is.
        Sessile::Session::close($self);
        die 'Session could not be unserialized';
    }
    # An older version stored it: the next save leaves it out.
    $self->{status} = (defined $data->{_session_id} ? SYNCED | MODIFIED : SYNCED) | $$ << 4;
    $data->{_session_id} = $id;
    $self->{data} = $data;
    return $self;
}

sub _make {
    my ($self) = @_;
    for (1 .. 20) {
        my $id = Sessile::new_id($self->{args}{IDLength} // 32);
        # A short one may be taken.
        next if length Sessile::Session::open($self, $self->{opened}[0], $id);
        $self->{data}   = { _session_id => $id };
        $self->{status} = NEW | $$ << 4;
        return $self;
    }
    Sessile::Session::close($self);
    die 'Object already exists in the data store';
}

sub _store {
    my ($self) = @_;
    my $status = $self->{status};
    return if $status & DELETED;
    if ($status & (NEW | MODIFIED)) {
        my $owner = $self->{args}{Owner};
        Sessile::Session::name_owner($self, $owner, $self->{data}) if defined $owner;
        Sessile::Session::save($self, $self->_bytes, 1);
        $self->{status} = SYNCED | $$ << 4;
    }
    else {
        Sessile::Session::save($self, '', 0);
    }
    return;
}

sub _modify {
    my ($self) = @_;
    $self->{status} = $self->{status} & 15 | MODIFIED | $$ << 4;
    return;
}

sub DELETE {
    my ($self, $key) = @_;
    $self->_modify;
    return delete $self->{data}{$key};
}

sub CLEAR {
    my ($self) = @_;
    $self->_modify;
    $self->{data} = {};
    return;
}

# Without the id: stores keep digests of ids, so that nobody can log in with a copy of one.
sub _bytes {
    my ($self) = @_;
    delete local $self->{data}{_session_id};
    return $self->{opened}[1]->($self->{data});
}

# Stores what has changed, and goes on holding the session. Between the two another request may have
# had it: then this dies.
sub save {
    my ($self) = @_;
    return if $self->{status} & DELETED or !($self->{status} & (NEW | MODIFIED));
    $self->_store;
    Sessile::Session::hold($self);
    return;
}

sub delete {
    my ($self) = @_;
    return if $self->{status} & DELETED;
    # A new one is stored at untie, and is not then.
    my $new = $self->{status} & NEW;
    $self->{status} = DELETED;
    $new ? Sessile::Session::close($self) : Sessile::Session::destroy($self);
    return;
}

# The session is held from tie to untie.
sub restore            { return }
sub acquire_read_lock  { return }
sub acquire_write_lock { return }
sub release_read_lock  { return }
sub release_write_lock { return }
sub release_all_locks  { return }

sub DESTROY {
    my ($self) = @_;
    # Not if it was never opened, and not what another thread has.
    return if !Sessile::Session::is_open($self) or $self->{status} >> 4 != $$;
    local $@;
    # Its lock goes with the object.
    eval { $self->_store; 1 } or warn "Apache::Session::Sessile: nothing is saved: $@\n";
    return;
}

1;

__END__

=head1 NAME

Apache::Session::Sessile - Apache::Session in a store of Sessile, without lost updates

=head1 SYNOPSIS

    use Apache::Session::Sessile;
    tie my %session, 'Apache::Session::Sessile', $id, { Url => 'sessile:/var/lib/sessile' };
    $session{visits}++;
    untie %session;                 # stores, and lets the next request in

=head1 DESCRIPTION

In place of L<Apache::Session::File> and its relatives. With an id that is unknown, expired or
destroyed, C<tie> dies with "Object does not exist in the data store", without one it makes a session.

=over

=item * A request holds its session from C<tie> to C<untie>: two of them lose nothing, whether or not
C<Transaction> is set. A second C<tie> of the same session in the same request waits for the first,
C<LockWait> seconds, and dies.

=item * C<save> in between gives the lock back and takes it again. It dies with a L<Sessile::Error> of
the kind C<stale> if another request has changed the session there: what was saved had been stored,
and what is changed after it is refused.

=item * A new session is stored at C<untie>, or by C<save>, and not at C<tie>.

=item * A session that was deleted stays deleted, whatever requests save that were under way.

=item * As in Apache::Session, a change deep inside a value is stored only if the session was
changed at its top, too.

=back

=head2 Arguments

    Url          the store (any URL of the manual)
    Directory    without Url: the directory of an engine, sessile:DIRECTORY
    Expires      seconds that a session lives after each request (1440)
    LockWait     longest wait for a session that another request holds (30)
    Serialize    Storable (default) or JSON
    Concurrency  exclusive (default) or merge, which needs JSON
    Conflict     with merge, when two requests have changed one value: last (default) wins, or fail
    IDLength     digits of a new id (32)
    Owner        key of the session that has the user, such as user_id; a store that keeps no owners
                 (memcached) is refused

With C<Owner>, C<< Sessile->shared($url)->revoke($user) >> ends the sessions of a user that were changed
since.

C<LockDirectory> and C<Transaction> are taken and mean nothing. Storable is the default because
sessions of Perl have objects and references in them. JSON is for sessions that another language
reads, for C<merge>, and where others can write to the store: a forged Storable payload can make
objects of any class.

=cut
