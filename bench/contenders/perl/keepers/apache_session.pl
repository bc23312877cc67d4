# Sessions of Apache::Session, as its manual shows: a tied hash, saved when it is untied. Settings: `session` is the class,
# `argument.NAME` are its arguments. With `dsn` it gets one connection for the life of the process, as under mod_perl, with
# `table` made on it; `commit` says that the class commits itself.
package Keeper::ApacheSession;
use strict;
use warnings;
use File::Glob qw(bsd_glob);

sub new {
    my ($class, $settings) = @_;
    (my $file = "$settings->{session}.pm") =~ s{::}{/}g;
    require $file if !$settings->{session}->can('populate');
    my %arguments = map { /^argument\.(.+)/ ? ($1 => $settings->{$_}) : () } keys %$settings;
    my $self = bless { %$settings{qw(session dir)}, arguments => \%arguments, settings => $settings }, $class;
    if ($settings->{dsn}) {
        require DBI;
        my %attributes = (RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => !$settings->{commit});
        my $database = DBI->connect($settings->{dsn}, $settings->{user}, undef, \%attributes);
        $database->do($settings->{table});
        $database->commit if $settings->{commit};
        @arguments{qw(Handle LockHandle)} = ($database, $database);
        $arguments{Commit} = 1 if $settings->{commit};
    }
    return $self;
}

# A connection belongs to the process that made it.
sub forked {
    my ($self) = @_;
    return $self->{settings}{dsn} ? (ref $self)->new($self->{settings}) : $self;
}

sub begin {
    my ($self, $id) = @_;
    my %session;
    tie %session, $self->{session}, $id, $self->{arguments};
    return \%session;
}

sub end {
    my ($self, $session) = @_;
    my $id = $session->{_session_id};
    untie %$session;
    return $id;
}

sub clear {
    my ($self) = @_;
    if (my $database = $self->{arguments}{Handle}) {
        $database->do('TRUNCATE TABLE sessions');
        $database->commit if $self->{arguments}{Commit};
        return;
    }
    for my $file (grep { -f } bsd_glob("$self->{dir}/*"), bsd_glob("$self->{dir}/*/*")) {
        unlink $file or die "a file of a session cannot be removed: $!\n";
    }
}

1;
