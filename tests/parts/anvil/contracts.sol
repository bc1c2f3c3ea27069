// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.0;

/// The least ERC-20 that a payment needs. Anybody may mint: it is money for tests.
contract TestToken {
    event Transfer(address indexed from, address indexed to, uint256 amount);

    string public symbol;
    uint8 public decimals;
    mapping(address => uint256) public balanceOf;

    constructor(string memory symbol_, uint8 decimals_) {
        symbol = symbol_;
        decimals = decimals_;
    }

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        return move(msg.sender, to, amount);
    }

    /// Without allowances: a stranger may move nothing, and nothing is what poisoners move.
    function transferFrom(address owner, address to, uint256 amount) external returns (bool) {
        require(amount == 0 || owner == msg.sender, "no allowance");
        return move(owner, to, amount);
    }

    function move(address owner, address to, uint256 amount) private returns (bool) {
        balanceOf[owner] -= amount;
        balanceOf[to] += amount;
        emit Transfer(owner, to, amount);
        return true;
    }
}

/// A wallet that pays by inner calls, and takes any coin.
contract TestWallet {
    receive() external payable {}

    function pay(address payable to, uint256 amount) external {
        (bool done, ) = to.call{value: amount}("");
        require(done, "payee refused");
    }

    /// Pays, and takes it back by failing inside; the transaction itself succeeds.
    function payInVain(address payable to, uint256 amount) external {
        (bool done, ) = address(this).call(abi.encodeCall(this.payAndFail, (to, amount)));
        require(!done, "should have failed");
    }

    function payAndFail(address payable to, uint256 amount) external {
        to.call{value: amount}("");
        revert("in vain");
    }

    function payMany(
        address[] calldata tokens,
        address payable[] calldata to,
        uint256[] calldata amounts
    ) external payable {
        for (uint256 i = 0; i < to.length; i++) {
            if (tokens[i] == address(0)) {
                (bool done, ) = to[i].call{value: amounts[i]}("");
                require(done, "payee refused");
            } else {
                TestToken(tokens[i]).transfer(to[i], amounts[i]);
            }
        }
    }
}

/// Takes a payment and sends half of it on in the same transaction.
contract TestForwarder {
    address payable immutable onward;

    constructor(address payable onward_) {
        onward = onward_;
    }

    receive() external payable {
        (bool done, ) = onward.call{value: msg.value / 2}("");
        require(done, "onward refused");
    }
}

/// Takes nothing.
contract TestRefuser {
    receive() external payable {
        revert("not here");
    }
}

/// Adds up what many addresses hold, in one question; the zero address asks for coin.
contract TestTeller {
    function sum(address token, address[] calldata owners) external view returns (uint256 total) {
        for (uint256 i = 0; i < owners.length; i++) {
            total += token == address(0) ? owners[i].balance : TestToken(token).balanceOf(owners[i]);
        }
    }
}
