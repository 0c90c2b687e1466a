package shop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	lockrt "github.com/lockgen/lockgen/runtime"
	"github.com/lockgen/lockgen/runtime/locktest"
)

// TestTransfer_SameWallet shows that a transfer from a wallet to itself takes one lock, and that
// the shop refuses it.
func TestTransfer_SameWallet(t *testing.T) {
	t.Parallel()
	inner := New(nil, nil, nil)
	service := NewLockedService(inner, inner.Stored(), locktest.Client(t, lockrt.Options{}))
	err := service.Transfer(t.Context(), &Transfer{ID: "t", From: "w", To: "w", Cents: 1})
	require.ErrorIs(t, err, ErrSameWallet)
}

// TestPay_EmptyID shows that a request with an empty id fails, and locks nothing.
func TestPay_EmptyID(t *testing.T) {
	t.Parallel()
	inner := New(nil, nil, nil)
	service := NewLockedService(inner, inner.Stored(), locktest.Client(t, lockrt.Options{}))
	var wrong *lockrt.KeyError
	require.ErrorAs(t, service.Pay(t.Context(), &Order{Wallet: "w"}), &wrong)
}

// TestReport_Fallback shows that other replicas return the stored report while one replica makes a
// new one.
func TestReport_Fallback(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	one, other := locktest.Client(t, lockrt.Options{}), locktest.Client(t, lockrt.Options{})
	inner := New(store, nil, nil)
	service := NewLockedService(inner, inner.Stored(), one)
	_, err := store.db.Exec(t.Context(), `INSERT INTO payments VALUES ('o', 'w', 30)`)
	require.NoError(t, err)

	busy, err := other.Mutex(ServiceKeys{}.Report()).Lock(t.Context())
	require.NoError(t, err)
	report, err := service.Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, Report{Stored: true}, report, "nothing is stored so far")
	require.NoError(t, busy.Unlock(t.Context()))

	require.Eventually(t, func() bool { // a request that was answered late, and was sent once more, may lock again for a moment
		report, err = service.Report(t.Context())
		return err != nil || !report.Stored
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, Report{Payments: 1, Cents: 30}, report)

	busy, err = other.Mutex(ServiceKeys{}.Report()).Lock(t.Context())
	require.NoError(t, err)
	_, err = store.db.Exec(t.Context(), `INSERT INTO payments VALUES ('p', 'w', 12)`)
	require.NoError(t, err)
	report, err = service.Report(t.Context())
	require.NoError(t, err)
	require.Equal(t, Report{Payments: 1, Cents: 30, Stored: true}, report)
	require.NoError(t, busy.Unlock(t.Context()))
}
