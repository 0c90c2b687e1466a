package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockgen/lockgen/examples/service/shop"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// service returns the same error from all methods.
type service struct {
	err error
	ctx context.Context //nolint:containedctx // the context of the last call
}

func (s *service) Reserve(ctx context.Context, _ *shop.Order) error     { s.ctx = ctx; return s.err }
func (s *service) Pay(ctx context.Context, _ *shop.Order) error         { s.ctx = ctx; return s.err }
func (s *service) Transfer(ctx context.Context, _ *shop.Transfer) error { s.ctx = ctx; return s.err }
func (s *service) Ship(ctx context.Context, _ *shop.Order) error        { s.ctx = ctx; return s.err }
func (s *service) Report(ctx context.Context) (shop.Report, error) {
	s.ctx = ctx
	return shop.Report{Payments: 3, Cents: 7}, s.err
}

func TestHandler_SaysWhatBecameOfARequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err    error
		status int
		want   Outcome
	}{
		{nil, http.StatusOK, OK},
		{shop.ErrPoor, http.StatusUnprocessableEntity, Poor},
		{shop.ErrSoldOut, http.StatusUnprocessableEntity, SoldOut},
		{shop.ErrUnknown, http.StatusUnprocessableEntity, Refused},
		{shop.ErrUnpaid, http.StatusUnprocessableEntity, Refused},
		{shop.ErrSameWallet, http.StatusUnprocessableEntity, Refused},
		{&lockrt.KeyError{}, http.StatusUnprocessableEntity, Refused},
		{lockrt.ErrNotAcquired, http.StatusConflict, Busy},
		{shop.ErrStale, http.StatusConflict, Stale},
		{lockrt.ErrUnavailable, http.StatusServiceUnavailable, Unavailable},
		{lockrt.ErrClosed, http.StatusServiceUnavailable, Unavailable},
		{lockrt.ErrLost, http.StatusServiceUnavailable, Lost},
		{errors.Join(shop.ErrPoor, lockrt.ErrLost), http.StatusServiceUnavailable, Lost}, // it may have read a value of another holder
		{context.DeadlineExceeded, http.StatusInternalServerError, Failed},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/reserve", "/pay", "/transfer", "/ship", "/report"} {
				s := &service{err: tt.err}
				w := httptest.NewRecorder()
				Handler(s).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{}`)))
				require.Equal(t, tt.status, w.Code, path)
				var a Answer
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
				require.Equal(t, tt.want, a.Outcome, path)
				if tt.err == nil && path == "/report" {
					require.Equal(t, shop.Report{Payments: 3, Cents: 7}, a.Report)
				}
				_, bounded := s.ctx.Deadline()
				require.True(t, bounded, "%s has no deadline", path)
			}
		})
	}
}

func TestHandler_RefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	s := &service{}
	w := httptest.NewRecorder()
	Handler(s).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader(`{`)))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), `"refused"`)
	require.Nil(t, s.ctx, "the shop was called")
}

// A replica that stops waits for longer than a request may take: the locks of a request that it leaves behind would have to expire.
func TestHandler_ARequestEndsBeforeTheReplica(t *testing.T) {
	t.Parallel()
	s := &service{}
	Handler(s).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader("{}")))
	ends, ok := s.ctx.Deadline()
	require.True(t, ok)
	require.True(t, ends.Before(time.Now().Add(drain)))
}
