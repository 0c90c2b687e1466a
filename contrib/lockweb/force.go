package lockweb

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/lockgen/lockgen/internal/survey"
	lockrt "github.com/lockgen/lockgen/runtime"
)

// A forging detects requests that another site makes a browser send: a token belongs to a cookie that other sites
// cannot set.
type forging struct {
	secret func() []byte
	once   sync.Once
	origin http.CrossOriginProtection
}

const cookieName = "lockweb"

// mac returns the token of a cookie.
func (f *forging) mac(cookie string) string {
	f.once.Do(func() {
		secret := []byte(rand.Text())
		f.secret = func() []byte { return secret }
	})
	sum := hmac.New(sha256.New, f.secret())
	sum.Write([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// token returns the token for a viewer, and sets a cookie if there is none yet.
func (f *forging) token(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		return f.mac(c.Value)
	}
	c := &http.Cookie{Name: cookieName, Value: rand.Text(), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
	http.SetCookie(w, c)
	return f.mac(c.Value)
}

// check reports why a request may be forged.
func (f *forging) check(r *http.Request) error {
	if err := f.origin.Check(r); err != nil {
		return errors.New("the request comes from another site")
	}
	c, err := r.Cookie(cookieName)
	if err != nil || c.Value == "" || !hmac.Equal([]byte(f.mac(c.Value)), []byte(r.PostFormValue("token"))) {
		return errors.New("the request has not the token of the question: open the page again, and let it ask")
	}
	return nil
}

// A question asks the viewer to confirm before a lock is forced open.
type question struct {
	ID, Token, Kind, Who, Name, Held string
	Key                              keyText
}

// An answer is the result.
type answer struct{ Title, Text string }

// force asks by GET, and forces a lock open by POST.
func (p *Page) force(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, text string) { render(w, status, "answer", answer{"Nothing was taken", text}) }
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, POST")
		refuse(http.StatusMethodNotAllowed, "a lock is taken by POST")
		return
	case p.auth == nil:
		refuse(http.StatusForbidden, "this page is read-only")
		return
	}
	id := r.URL.Query().Get("id")
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 4096)
		if err := p.forging.check(r); err != nil {
			refuse(http.StatusForbidden, err.Error())
			return
		}
		id = r.PostFormValue("id")
	}
	if err := p.auth(r); err != nil {
		refuse(http.StatusForbidden, survey.Clean(err.Error()))
		return
	}
	v, err := p.look(r.Context(), true)
	if err != nil {
		refuse(http.StatusServiceUnavailable, "the locks cannot be looked at: "+survey.Clean(err.Error()))
		return
	}
	one, ok := v.holders[id]
	if !ok {
		refuse(http.StatusConflict, "its holder has given the lock back, or lost it")
		return
	}
	row := v.Held.Rows[slices.Index(v.Held.ids, id)]
	if r.Method == http.MethodGet {
		render(w, http.StatusOK, "ask", question{
			ID: id, Token: p.forging.token(w, r), Kind: row.Kind, Who: row.Who, Name: row.Name, Key: row.Key,
			Held: between(row.Since, v.Now()),
		})
		return
	}
	taken, whole, err := p.take(r.Context(), one)
	switch {
	case err != nil:
		render(w, http.StatusBadGateway, "answer", answer{"It is not known whether the lock was taken", survey.Clean(err.Error())})
	case !taken:
		refuse(http.StatusConflict, "its holder has given the lock back, or lost it")
	case !whole:
		render(w, http.StatusOK, "answer", answer{"One permit was taken", p.onePermit(one, row)})
	default:
		render(w, http.StatusOK, "answer", answer{"The lock was taken", row.Who + " has lost " + row.Key.Short + "."})
	}
}

// onePermit returns what it means to a holder that it has lost one of its permits. A client that takes a permit of its own knows that the others
// are still there.
func (p *Page) onePermit(one held, row heldRow) string {
	text := fmt.Sprintf("%s has lost one of its %d permits of %s. ", row.Who, one.holder.Holds, row.Key.Short)
	if p.clientOf(one).ID() == one.holder.Process {
		return text + "It keeps its lease and the others."
	}
	return text + "It learns the loss when it renews or releases them. The others are free when it releases them, or after their lease time."
}

// clientOf returns the client that takes a lock: its own one, if the page has that.
func (p *Page) clientOf(one held) *lockrt.Client {
	for _, c := range p.clients {
		if c.ID() == one.holder.Process {
			return c
		}
	}
	return p.clients[0]
}

// take takes a lock from the holder that the page showed, and reports whether that holder still had it. It takes a lock that
// is read from all its readers, that holder among them. It takes one permit, and whole is false, if the holder has others whose ids
// are not known.
func (p *Page) take(ctx context.Context, one held) (taken, whole bool, err error) {
	c := p.clientOf(one)
	owners := []string{one.holder.Owner}
	whole = true
	if one.lock.Kind == string(lockrt.KindRead) {
		standing, err := c.RWMutex(one.lock.Key).Inspect(ctx)
		if err != nil || !slices.Contains(standing.Readers, one.holder.Owner) {
			return false, false, err
		}
		owners = standing.Readers
	}
	if one.lock.Kind == string(lockrt.KindPermit) {
		owners, whole, err = survey.Owners(ctx, c.Redis(), one.lock, []survey.Holder{one.holder})
		if err != nil {
			return false, false, err
		}
	}
	taken, err = c.ForceUnlock(ctx, one.lock.Key, owners...)
	return taken, whole, err
}
