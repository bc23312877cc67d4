# Runs the cases of spec/requests.toml through the plain interface: perl -Mblib run.pl CASES STORE-URL
#
# Time passes only in the clocks of tests, so cases in which it does are not for Perl, nor are those
# of best effort, which is for the progress of uploads in PHP.
use strict;
use warnings;
use Sessile;

my ($file, $url) = @ARGV;
# What the library logs and what a session is opened with in place of its lock are warnings.
my @warnings;
$SIG{__WARN__} = sub { push @warnings, @_ };

# The inline tables of the file: { name = "text", other = true }.
sub table {
    my ($text) = @_;
    my %table;
    while ($text =~ /(\w+) = (?:"([^"]*)"|'([^']*)'|(\w+))/g) {
        $table{$1} = $2 // $3 // ($4 eq 'true' ? 1 : $4 eq 'false' ? 0 : $4);
    }
    return \%table;
}

sub cases {
    open my $in, '<', $file or die "$file: $!\n";
    my (undef, @cases) = split /^\[\[case\]\]\n/m, do { local $/; <$in> };
    return map {
        my ($name)  = /^name = "(.*)"$/m;
        my ($rules) = /^rules = (.*)$/m;
        { name => $name, rules => table($rules // ''), steps => [map { table($_) } /^    \{ (.*) \},$/mg] };
    } @cases;
}

sub sessions_of {
    my ($rules) = @_;
    return Sessile->shared(
        $url,
        lock_wait            => 0,
        expires              => $rules->{idle} // 1440,
        first_lifetime       => $rules->{first_lifetime} // 0,
        lifetime             => $rules->{lifetime} // 0,
        grace                => $rules->{grace} // 30,
        read_on_lock_timeout => $rules->{read_on_lock_timeout} // 0,
        lazy_start           => $rules->{lazy_start} // 1,
        touch_unlocked       => $rules->{touch_unlocked} // 0,
        merge                => ($rules->{concurrency} // '') eq 'merge',
        fail_on_conflict     => ($rules->{merge_conflict} // '') eq 'fail',
        format               => 'php',
    );
}

# The result of a call, or the kind of its failure; and whether it failed.
sub try_it {
    my ($call) = @_;
    my @result = eval { $call->() };
    return ($result[0], 0) if !$@;
    die $@ if !ref $@;
    return ($@->kind, 1);
}

sub run_case {
    my ($case) = @_;
    my $sessions = sessions_of($case->{rules});
    my (%requests, %ids);
    my $id_of = sub { $ids{ $_[0] } //= Sessile::new_id() };
    for my $step (@{ $case->{steps} }) {
        my $request = $requests{ $step->{by} } //= { holder => {} };
        @warnings = ();
        my $wrong = run_step($sessions, $request, $step, $id_of);
        return "$wrong (" . join(', ', map { "$_ = $step->{$_}" } sort keys %$step) . ')' if $wrong;
    }
    return;
}

sub differs {
    my ($got, $wanted) = map { $_ // 'nothing' } @_;
    return $got eq $wanted ? undef : "got $got, wanted $wanted";
}

sub run_step {
    my ($sessions, $request, $step, $id_of) = @_;
    my $holder = $request->{holder};
    if (exists $step->{made}) {
        return differs(Sessile::Session::make_id($holder, $sessions, $id_of->($step->{made})), 1);
    }
    if (exists $step->{start}) {
        my ($seen, $failed) = try_it(sub {
            Sessile::Session::open($holder, $sessions, $id_of->($step->{start}), !$step->{unlocked}, $step->{strict});
        });
        $request->{text} = $request->{opened} = $failed ? '' : $seen;
        return differs($seen, $step->{fails}) if $failed or $step->{fails};
        return differs(defined $seen, '') if exists $step->{known};
        # What is held is told by its message; there is no kind of a warning.
        my $told = grep { /holds the session/ } @warnings;
        return differs($told, $step->{warns} ? 1 : 0) // differs($seen, $step->{sees});
    }
    if (exists $step->{put}) {
        $request->{text} = $step->{put};
        return;
    }
    if (exists $step->{save}) {
        my ($text, $open) = ($request->{text}, ($step->{headers} // '') ne 'sent');
        my ($saved) = try_it(sub {
            Sessile::Session::save($holder, $text, $text ne $request->{opened}, $open, $text eq '');
        });
        return differs($saved, $step->{save});
    }
    if (exists $step->{regenerate}) {
        my $new = $id_of->($step->{regenerate});
        my ($moved, $failed) = try_it(sub { Sessile::Session::regenerate($holder, $new, !$step->{deletes}) });
        return differs($failed ? $moved : undef, $step->{fails});
    }
    if (exists $step->{destroy}) {
        my $id = $id_of->($step->{destroy});
        my $own = Sessile::Session::is_open($holder) && Sessile::Session::id($holder) eq $id;
        my ($why, $failed) = try_it(sub { $own ? Sessile::Session::destroy($holder) : $sessions->destroy($id) });
        return differs($failed ? $why : undef, $step->{fails});
    }
    if (exists $step->{close}) {
        my $withdraw = Sessile::Session::is_open($holder) && Sessile::Session::close($holder);
        return differs($withdraw ? 'withdraw-cookie' : 'done', $step->{close});
    }
    return 'the step says nothing to do';
}

my ($passed, $failed, $left) = (0, 0, 0);
for my $case (cases()) {
    if ($case->{rules}{best_effort} or grep { exists $_->{advance} } @{ $case->{steps} }) {
        $left++;
        next;
    }
    my $wrong = run_case($case);
    $wrong ? $failed++ : $passed++;
    print STDERR "failed: $case->{name}: $wrong\n" if $wrong;
}
print "the cases of spec/: $passed passed, $failed failed, $left not for Perl\n";
exit($failed || !$passed ? 1 : 0);
